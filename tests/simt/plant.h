/* A fault planted into what lowering makes. */
#ifndef TEGULA_TEST_PLANT_H
#define TEGULA_TEST_PLANT_H

#include "emit/emitter.h"

typedef struct Plant {
	char kind[16];                                  /* "": none */
	int number, seen;                               /* which of its kind; so many have gone by */
} Plant;

/* One emitter at a time; counts from 0 again. */
void plant_into(Plant *plant, Emitter *e);

#endif
