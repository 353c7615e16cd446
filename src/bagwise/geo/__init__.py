"""Reading rasters: a bag per polygon, an instance per pixel. Needs the extra ``geo`` (rasterio, geopandas)."""

from bagwise.geo.rasters import from_raster

__all__ = ["from_raster"]
