"""The paper's study: train five knowledge-tracing backbones and build the paper's tables from their logits.

Refreshes do not use it. PyTorch comes with the extra ``study``.
"""
