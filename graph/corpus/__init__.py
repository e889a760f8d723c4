"""A local corpus, indexed on disk and searched by BM25."""
