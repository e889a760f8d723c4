"""Traces as OpenTelemetry spans with OpenInference attributes, for those who have a collector.

Only `address`, `timeline` and `live` may be imported where the packages of the extra `otel` are not there.
"""
