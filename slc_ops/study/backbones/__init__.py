"""The five backbones of the paper: one file each, with equations."""
