/* Arithmetic that compiled code calls. */
#ifndef TEGULA_SIMT_NUMBER_H
#define TEGULA_SIMT_NUMBER_H

#include <stdint.h>

float simt_from_f16(uint16_t v);
uint16_t simt_to_f16(float v);
uint16_t simt_to_f16_of_f64(double v);
uint16_t simt_to_bf16_of_f64(double v);
double simt_exp2(double v);
double simt_log2(double v);
double simt_sin(double v);
double simt_cos(double v);
double simt_tanh(double v);
/* Atomic sums; what was there before. */
uint16_t simt_add_f16(uint16_t *p, uint16_t v);
uint16_t simt_add_bf16(uint16_t *p, uint16_t v);
uint32_t simt_add_f16x2(uint32_t *p, uint32_t v);
uint32_t simt_add_bf16x2(uint32_t *p, uint32_t v);

#endif
