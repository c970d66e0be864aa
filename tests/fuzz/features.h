/* What random kernels are made of. */
#ifndef FEATURES_H
#define FEATURES_H

#include <stdint.h>

/* Counts each feature of the language over the kernels of seeds; 1 if one is in none of them. */
int features_count(uint64_t seed, uint64_t count);

#endif
