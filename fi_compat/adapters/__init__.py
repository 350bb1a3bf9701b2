"""One module per meaning of an upstream's calls; chosen by ``fi_compat._resolver``, never imported by users."""

__all__: list[str] = []
