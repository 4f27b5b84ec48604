"""Implementations of the port in `holdfast.store`. Nothing above imports these but `holdfast.opening`."""
