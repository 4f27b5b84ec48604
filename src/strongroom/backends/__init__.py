"""Implementations of the port in `strongroom.store`. Nothing above imports these but `strongroom.opening`."""
