"""The words from which a catalogue is made: what is sold, how it is described, and how it varies."""

from typing import Final, NamedTuple


class Shelf(NamedTuple):
    """A part of a department: products of like kinds."""

    name: str
    nouns: tuple[str, ...]
    """What lies on it; with the article "a" where the word takes one."""
    attributes: tuple[str, ...]
    """What its products may be, besides what the whole department may be."""
    options: tuple[str, ...]
    """Names of the options that they come in, of ``OPTIONS``."""
    prices: tuple[int, int]
    """Least and greatest price, in dollars."""


class Department(NamedTuple):
    """A part of the shop."""

    name: str
    attributes: tuple[str, ...]
    shelves: tuple[Shelf, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))


def _shelf(name: str, nouns: str, attributes: str, options: str, low: int, high: int) -> Shelf:
    return Shelf(name, _words(nouns), _words(attributes), _words(options), (low, high))


OPTIONS: Final = {
    "color": _words(
        "black, white, navy, red, green, gray, beige, brown, pink, purple, orange, yellow, teal, ivory, "
        "charcoal, burgundy, olive, turquoise"
    ),
    "size": _words("x-small, small, medium, large, x-large, xx-large"),
    "capacity": _words("10 liters, 20 liters, 30 liters, 40 liters, 50 liters, 60 liters"),
    "flavor": _words(
        "vanilla, chocolate, strawberry, lemon, peppermint, caramel, hazelnut, coconut, ginger, mango"
    ),
    "scent": _words(
        "lavender, rose, citrus, sandalwood, eucalyptus, jasmine, cedar, unscented, bergamot, mint"
    ),
    "pack": _words("1 pack, 2 pack, 3 pack, 4 pack, 6 pack, 12 pack"),
    "length": _words("3 feet, 6 feet, 10 feet, 15 feet, 25 feet, 50 feet"),
    "bed size": _words("twin, full, queen, king, california king"),
    "finish": _words("oak, walnut, cherry, espresso, whitewash, graphite"),
    "volume": _words("50 ml, 100 ml, 200 ml, 300 ml, 500 ml, 1000 ml"),
    "people": _words("1 person, 2 person, 3 person, 4 person, 6 person, 8 person"),
}

DEPARTMENTS: Final = (
    Department(
        "clothing",
        _words(
            "machine washable, lightweight, organic cotton, recycled polyester, unisex, imported, "
            "stretch fabric, breathable, quick dry, reflective, fair trade, hypoallergenic"
        ),
        (
            _shelf(
                "outerwear", "a jacket, a coat, a vest, a raincoat, a parka",
                "waterproof, windproof, hooded, fleece lined, packable, double zip, down filled, "
                "taped seams, hand wash only, long cut, zip pockets, insulated", "color, size", 35, 180,
            ),
            _shelf(
                "tops", "a shirt, a sweater, a hoodie, a blouse, a polo",
                "long sleeve, short sleeve, slim fit, loose fit, button down, wrinkle free, crew neck, "
                "v neck, merino wool, ribbed cuffs, tagless, moisture wicking", "color, size", 12, 90,
            ),
            _shelf(
                "shoes", "sneakers, boots, sandals, loafers, slippers",
                "rubber sole, memory foam, arch support, non slip, wide fit, steel toe, lace up, slip on, "
                "leather upper, vegan leather, removable insole, shock absorbing", "color, size", 18, 140,
            ),
        ),
    ),
    Department(
        "outdoor",
        _words(
            "waterproof, ultralight, tear resistant, foldable, uv resistant, rust proof, reflective, "
            "lifetime warranty, recycled materials, all season, compact, heavy duty"
        ),
        (
            _shelf(
                "camping", "a tent, a cabin tent, a dome tent, a hammock, a tarp shelter",
                "easy setup, double wall, insect netting, blackout lining, full rain fly, color coded poles, "
                "gear loft, ventilated roof, freestanding, storm proof, gravel stakes, taped floor",
                "color, people", 40, 320,
            ),
            _shelf(
                "hiking", "a backpack, a daypack, a dry bag, a duffel bag, a cooler bag",
                "adjustable straps, padded back, hydration sleeve, rain cover, hip belt, compression straps, "
                "quick release, roll top, insulated, leak proof, laptop pocket, breathable mesh",
                "color, capacity", 25, 210,
            ),
            _shelf(
                "cycling", "a bike helmet, cycling gloves, a cycling jersey, bib shorts, a rain cape",
                "gel padded, ventilated, anti slip, high visibility, quick dry, touch screen friendly, "
                "adjustable fit, mips protection, flat seams, back pockets, wind resistant, sweat wicking",
                "color, size", 15, 130,
            ),
        ),
    ),
    Department(
        "beauty",
        _words(
            "cruelty free, paraben free, vegan, dermatologist tested, hypoallergenic, travel friendly, "
            "alcohol free, plant based, recyclable bottle, mineral oil free, made in small batches, ph "
            "balanced"
        ),
        (
            _shelf(
                "skin care", "face cream, body lotion, sunscreen, face serum, a face mask",
                "fast absorbing, non greasy, anti aging, hyaluronic acid, shea butter, aloe vera, vitamin c, "
                "for dry skin, for oily skin, for sensitive skin, spf 30, oil free", "scent, volume", 6, 60,
            ),
            _shelf(
                "hair care", "shampoo, conditioner, hair oil, hair gel, a hair mask",
                "sulfate free, silicone free, color safe, anti dandruff, argan oil, keratin, for curly "
                "hair, for fine hair, volumizing, heat protection, strong hold, tea tree oil",
                "scent, volume", 5, 45,
            ),
            _shelf(
                "bath", "bar soap, bath salts, shower gel, bath bombs, body scrub",
                "moisturizing, exfoliating, epsom salt, goat milk, coconut oil, oatmeal, long lasting foam, "
                "handmade, palm oil free, glycerin, detoxifying, gentle on skin", "scent, pack", 4, 40,
            ),
        ),
    ),
    Department(
        "grocery",
        _words(
            "gluten free, non gmo, usda organic, kosher, plant based, soy free, no artificial colors, "
            "resealable bag, fair trade, small batch, sugar free, low sodium"
        ),
        (
            _shelf(
                "snacks", "granola bars, trail mix, protein cookies, popcorn, rice crackers",
                "nut free, high protein, high fiber, whole grain, individually wrapped, keto friendly, "
                "low calorie, baked, dairy free, no palm oil, crunchy, kid friendly", "flavor, pack", 4, 40,
            ),
            _shelf(
                "drinks", "herbal tea, ground coffee, hot cocoa, a protein shake, iced tea",
                "caffeine free, dark roast, unsweetened, single serve, instant, shade grown, low acid, "
                "lactose free, loose leaf, cold brew, rich in antioxidants, naturally flavored",
                "flavor, pack", 5, 50,
            ),
            _shelf(
                "pantry", "peanut butter, oatmeal, pancake mix, syrup, granola",
                "no added sugar, stone ground, quick cooking, whole grain, high fiber, creamy, crunchy, "
                "cold pressed, vegan, ready to eat, low fat, no preservatives", "flavor, pack", 4, 35,
            ),
        ),
    ),
    Department(
        "electronics",
        _words(
            "plug and play, shock proof, compact, two year warranty, energy saving, fast charging, "
            "overheat protection, tangle free, heavy duty, travel friendly, led indicator, recycled plastic"
        ),
        (
            _shelf(
                "audio", "headphones, earbuds, a bluetooth speaker, a soundbar, a headset",
                "noise cancelling, wireless, long battery life, water resistant, deep bass, hands free, "
                "low latency, touch control, voice control, carrying case, hi res audio, built in microphone",
                "color, pack", 15, 220,
            ),
            _shelf(
                "cables", "a usb cable, an hdmi cable, an extension cord, an ethernet cable, a power cable",
                "braided, gold plated, flat design, right angle plug, surge protected, magnetic, 4k ultra "
                "hd, double shielded, flame retardant, flexible, high speed, cable ties included",
                "color, length", 6, 45,
            ),
            _shelf(
                "computers", "a keyboard, a mouse, a webcam, a mouse pad, a laptop sleeve",
                "ergonomic, backlit, silent click, wireless, spill resistant, hot swappable, left handed, "
                "privacy cover, usb c, anti slip base, adjustable height, programmable keys",
                "color, pack", 9, 130,
            ),
        ),
    ),
    Department(
        "home",
        _words(
            "easy assembly, space saving, eco friendly, scratch resistant, stain resistant, modern design, "
            "rustic style, handmade, heavy duty, easy to clean, odor free, recyclable packaging"
        ),
        (
            _shelf(
                "bedding", "a duvet cover, a sheet set, a blanket, a mattress topper, a bedspread",
                "machine washable, fade resistant, cooling, oeko tex certified, bamboo fabric, deep pockets, "
                "zipper closure, quilted, wrinkle free, double sided, hypoallergenic, cotton blend",
                "color, bed size", 18, 160,
            ),
            _shelf(
                "furniture", "a nightstand, a bookshelf, a coffee table, a bar stool, a shoe rack",
                "solid wood, tempered glass, wall mounted, height adjustable, anti slip feet, storage "
                "drawer, metal frame, tool free, folding, usb outlet, soft close, rounded corners",
                "finish, color", 35, 320,
            ),
            _shelf(
                "kitchen", "a cutting board, storage jars, a mixing bowl, a baking tray, a spice rack",
                "dishwasher safe, bpa free, airtight, stackable, non stick, microwave safe, oven safe, "
                "leak proof lid, silicone grip, measurement marks, freezer safe, easy pour",
                "color, pack", 8, 70,
            ),
        ),
    ),
)  # fmt: skip

BRANDS: Final = _words(
    "Alderway, Brightfell, Cobaltine, Dunmere, Elmsworth, Fernhollow, Glenmark, Harborline, Isenfield, "
    "Juniper & Co, Kestrel, Lowmoor, Marlowe, Northbeck, Oakhurst, Pinecrest, Quillon, Ravensby, "
    "Silverton, Thornbury, Umberly, Valewood, Westering, Yarrow, Zephyrine"
)

SERIES: Final = _words(
    "Anchor, Beacon, Canyon, Drift, Ember, Fable, Grove, Haven, Indigo, Jasper, Keystone, Lumen, Meadow, "
    "Nimbus, Orchard, Prairie, Quarry, Ridge, Summit, Timber, Upland, Vista, Willow, Yonder, Zenith, "
    "Aurora, Breeze, Crest, Delta, Echo, Forge, Glacier, Horizon, Isle, Journey, Knoll, Lagoon, Mesa"
)


def bare(noun: str) -> str:
    """Return a noun without its article."""
    return noun.removeprefix("an ").removeprefix("a ")
