/* Tiles lie over a GPU's threads in layouts drawn at random, whatever they cost, in place of those that the passes choose. */
#ifndef TEGULA_FUZZ_DRAW_LAYOUTS_H
#define TEGULA_FUZZ_DRAW_LAYOUTS_H

#include <stdint.h>

/* Of all that is compiled from here on, each module from this seed; 0: layouts are chosen. */
void draw_layouts(uint64_t seed);

#endif
