"""The paper's analyses and public data sets; refreshes do not use them."""
