"""The type of the typed answer."""

from pydantic import BaseModel


class City(BaseModel):
    name: str
    people: int
