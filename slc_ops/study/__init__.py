"""The paper's study: trains five knowledge-tracing backbones, then makes its tables from their logits.

Nothing here takes part in a refresh. PyTorch comes with the extra ``study``.
"""
