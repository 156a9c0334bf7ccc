"""Pictures as models get them and records name them."""

import base64
import hashlib
import io

import numpy as np

from ragen_envs.conversation import Picture
from ragen_envs.errors import RagenError
from ragen_envs.pictures.png import encode_png


def picture_hash(picture: Picture) -> str:
    """Return the SHA-256 of a picture's size and pixels, whatever file format it is kept in."""
    height, width, _ = picture.shape
    return hashlib.sha256(f"{height} {width} ".encode() + picture.tobytes()).hexdigest()


def decode_png(data: bytes) -> Picture:
    """Return the picture in a PNG file, uint8 (H, W, 3)."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            return np.asarray(image.convert("RGB"), np.uint8)
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise RagenError(f"not a PNG file: {error}") from None


def data_url(picture: Picture) -> str:
    """Return a picture as a PNG data URL (RFC 2397)."""
    return f"data:image/png;base64,{base64.b64encode(encode_png(picture)).decode()}"
