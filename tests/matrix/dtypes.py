"""The element types of compiler/ir/dtypes.def in Python's own numbers: integers are ints, floats are floats (each type of the
language fits f64), results are rounded from exact fractions.  Nothing here comes from Tegula but names and widths."""
import math, os, random, re, struct

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class DType:
    # name: bits of exponent and of mantissa, whether there are infinities, the code of NaN (None: there is none)
    FORMATS = {"f16": (5, 10, True, 0x7E00), "bf16": (8, 7, True, 0x7FC0), "f32": (8, 23, True, 0x7FC00000),
               "f64": (11, 52, True, 0x7FF8000000000000), "f8e4m3": (4, 3, False, 0x7F),
               "f8e5m2": (5, 2, True, 0x7F), "f4e2m1": (2, 1, False, None)}

    def __init__(self, name, width, kind):
        self.name, self.width, self.kind = name, width, kind
        self.is_float, self.is_bool, self.is_packed = kind == "F", kind == "B", width == 4
        self.is_int, self.is_signed = kind in "SU", kind == "S"
        if self.is_float:
            self.exponent, self.mantissa, self.has_inf, self.nan = self.FORMATS[name]
            self.bias = (1 << self.exponent - 1) - 1
            self.saturates = width <= 8
            self.is_narrow = width < 32
            top = {"f8e4m3": 0x7E, "f4e2m1": 7}.get(name) or ((1 << self.exponent) - 1 << self.mantissa) - 1
            self.most_bits, self.most = top, self.value(top)
            self.limit = math.frexp(self.most)[1]
            self.codes = {}
            self.least = math.ldexp(1, 1 - self.bias - self.mantissa)
        elif self.is_int:
            self.low = -(1 << width - 1) if self.is_signed else 0
            self.high = (1 << width - self.is_signed) - 1
        else:
            self.low, self.high = 0, 1

    def __repr__(self):
        return self.name

    # ---- bits ----

    def value(self, bits):
        """What the bits mean."""
        if not self.is_float:
            return bits - (1 << self.width) if self.is_signed and bits >> self.width - 1 else bits
        sign = -1.0 if bits >> self.width - 1 else 1.0
        bits &= (1 << self.width - 1) - 1
        e, m = bits >> self.mantissa, bits & (1 << self.mantissa) - 1
        if self.has_inf and e == (1 << self.exponent) - 1:
            return math.nan if m else sign * math.inf
        if self.name == "f8e4m3" and bits == 0x7F:
            return math.nan
        if e == 0:
            return sign * math.ldexp(m, 1 - self.bias - self.mantissa)
        return sign * math.ldexp(m + (1 << self.mantissa), e - self.bias - self.mantissa)

    def bits(self, v):
        """The bits of a value that the type has; every NaN gives those of `nan`."""
        if not self.is_float:
            return int(v) & (1 << self.width) - 1
        if v != v:
            return self.nan
        code = self.codes.get(v) if v else None
        if code is None:
            code = self.encode(v)
            if v:                                   # 0 and -0 are one key
                self.codes[v] = code
        return code

    def encode(self, v):
        sign = int(math.copysign(1, v) < 0) << self.width - 1
        v = abs(v)
        if v == math.inf:
            return sign | (1 << self.exponent) - 1 << self.mantissa
        if v == 0:
            return sign
        e = max(math.frexp(v)[1] - 1, 1 - self.bias)
        n = int(math.ldexp(v, self.mantissa - e)) if e < 1000 else int(v) >> e - self.mantissa
        return sign | (n if n < 1 << self.mantissa else n + (e + self.bias - 1 << self.mantissa))

    # ---- conversions ----

    def round(self, v, saturate=None):
        """A float or an exact fraction to the nearest value, halves to even.  saturate: what conversions to 8 bits and
        fewer do with what is too great; they have no infinity to give where has_inf is false."""
        saturate = self.saturates if saturate is None else saturate
        if isinstance(v, float) and (v != v or v in (math.inf, -math.inf) or v == 0):
            if v != v:
                return self.most if self.nan is None else math.nan
            if v == 0:
                return v
            return math.copysign(self.most, v) if saturate else v
        n, d = v.as_integer_ratio()
        if n == 0:
            return 0.0
        sign, n = (-1.0 if n < 0 else 1.0), abs(n)
        e = n.bit_length() - d.bit_length()
        e -= (n << max(-e, 0)) < (d << max(e, 0))
        unit = max(e, 1 - self.bias) - self.mantissa
        q, left = divmod(n << max(-unit, 0), d << max(unit, 0))
        left *= 2
        q += left > d << max(unit, 0) or (left == d << max(unit, 0) and q & 1)
        if q.bit_length() + unit > self.limit or (r := math.ldexp(q, unit)) > self.most:
            return sign * (self.most if saturate else math.inf)
        return sign * r

    def wrap(self, v):
        return self.value(int(v) & (1 << self.width) - 1)

    def of(self, v, source):
        """`v as self`, v of the type source."""
        if self is source:
            return v
        if self.is_bool:
            return int(v != 0)
        if self.is_float:
            return self.round(v if source.is_float else int(v))
        if not source.is_float:
            return self.wrap(v)
        if v != v:
            return 0
        return self.low if v < self.low else self.high if v > self.high else int(v)

    # ---- samples ----

    def edges(self):
        if self.is_bool:
            return [0, 1]
        if self.is_int:
            some = [0, 1, 2, 3, 7, self.width - 1, self.width, self.width + 1, self.high, self.high - 1, self.high // 3]
            if self.is_signed:
                some += [-1, -2, -7, -self.width, self.low, self.low + 1]
            return sorted({v for v in some if self.low <= v <= self.high}, key=lambda v: (abs(v), v))
        normal = math.ldexp(1, 1 - self.bias)
        some = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -3.0, self.most, -self.most, normal, self.least, -self.least]
        some += [math.inf, -math.inf] if self.has_inf else []
        return some + ([math.nan] if self.nan is not None else [])

    def draw(self, rng):
        """Any value, small and great ones alike."""
        if self.is_bool:
            return rng.getrandbits(1)
        if self.is_int:
            return self.wrap(rng.getrandbits(rng.randint(1, self.width)) * rng.choice((1, -1)))
        if self.width <= 16 or rng.random() < 0.25:
            return self.value(rng.getrandbits(self.width))
        return self.round(rng.uniform(1, 2) * 2.0 ** rng.randint(-12, 12) * rng.choice((-1, 1)))


def read_dtypes():
    row = re.compile(r'^DTYPE\(\w+,\s*"(\w+)",\s*(\d+),\s*(\w),', re.M)
    with open(os.path.join(TOP, "compiler/ir/dtypes.def")) as f:
        return {name: DType(name, 1 if kind == "B" else int(bits), kind) for name, bits, kind in row.findall(f.read())}


DTYPES = read_dtypes()
BITS = {1: DTYPES["u8"], 4: DTYPES["u8"], 8: DTYPES["u8"], 16: DTYPES["u16"], 32: DTYPES["u32"], 64: DTYPES["u64"]}
PLAIN = [t for t in DTYPES.values() if not t.is_packed]
INTS = [t for t in PLAIN if t.is_int]
FLOATS = [t for t in PLAIN if t.is_float]


def columns(types, n, seed, friendly=lambda *v: True):
    """n tuples of values of these types: edges with each other as far as they fit, then any."""
    rng = random.Random(repr((seed, n, [t.name for t in types])))
    edges = [t.edges() for t in types]
    if len(types) == 1:
        pairs = [(v,) for v in edges[0]]
    else:
        pairs = [(a, b) for a in edges[0] for b in edges[1]]
        rng.shuffle(pairs)
        pairs = [p + tuple(rng.choice(e) for e in edges[2:]) for p in pairs]
    pairs = [p for p in pairs if friendly(*p)][: n - n // 5]
    while len(pairs) < n:
        p = tuple(t.draw(rng) for t in types)
        if friendly(*p):
            pairs.append(p)
    return [list(c) for c in zip(*pairs)]


# ---- files ----

NPY = {"bool": "|b1", "i8": "|i1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "u8": "|u1", "u16": "<u2", "u32": "<u4",
       "u64": "<u8", "f16": "<f2", "bf16": "<u2", "f32": "<f4", "f64": "<f8", "f8e4m3": "|u1", "f8e5m2": "|u1"}
PACK = {1: "B", 8: "B", 16: "H", 32: "I", 64: "Q"}


def pack_bits(t, values, row):
    """The memory of values of type t, rows of `row` elements: packed ones two in a byte, a row beginning on a byte."""
    bits = [t.bits(v) for v in values]
    if not t.is_packed:
        return struct.pack("<%d%s" % (len(bits), PACK[t.width]), *bits)
    out = bytearray()
    for at in range(0, len(bits), row):
        line = bits[at : at + row] + [0] * (row % 2)
        out += bytes(line[i] | line[i + 1] << 4 for i in range(0, len(line), 2))
    return bytes(out)


def write_npy(path, t, shape, values):
    data = pack_bits(t, values, shape[-1])
    if t.is_packed:
        shape = list(shape[:-1]) + [(shape[-1] + 1) // 2]
    head = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (
        NPY.get(t.name, "|u1"), ", ".join(map(str, shape)))
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
