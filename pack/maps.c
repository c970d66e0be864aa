/* ---- tensor maps: behind the launcher in every pack ---- */

/* The extent of a map's dimension, which may be several of the tensor's. */
static int64_t
tgp_mapped(const TgpMap *m, int i, const int64_t *extent)
{
	int64_t n = extent[m->dim[i]];
	int j;
	for (j = 1; j <= m->merged[i]; j++)
		if (__builtin_mul_overflow(n, extent[m->dim[i] - j], &n))
			return INT64_MAX;
	return n;
}

static int64_t
tgp_sum(const TgpKernel *k, const TgpSum *s, const TgpPlan *p, const int64_t (*extent)[TGP_RANK])
{
	int64_t sum = s->number, v;
	int i;
	for (i = 0; i < s->n; i++) {
		int q = s->term[i].param;
		v = s->term[i].dim >= 0 ? extent[q][s->term[i].dim] : q < k->nparams ? p->value_of[q] : p->dim[q - k->nparams];
		if (__builtin_mul_overflow(v, s->term[i].factor, &v) || __builtin_add_overflow(sum, v, &sum))
			return INT64_MAX;
	}
	return sum;
}

/* Corners have 16 bits along one dimension of windows, 8 along each of two. 0: they are further away, or offsets greater. */
static int
tgp_corners(const TgpKernel *k, const TgpMap *m, const TgpPlan *p, const int64_t (*extent)[TGP_RANK], int *lower, int *upper)
{
	int64_t most = m->windows == 1 ? INT16_MAX : INT8_MAX, low, high, n;
	int i;
	for (i = 0; i < m->windows; i++) {
		low = tgp_sum(k, &m->window[i].lower, p, extent);
		n = tgp_sum(k, &m->window[i].count, p, extent);
		if (low < -most - 1 || low > most || n > TGP_SIZE_MOST || tgp_sum(k, &m->window[i].reach, p, extent) > 2 * most + 1)
			return 0;
		high = low + (n > 1 ? n - 1 : 0) * m->window[i].step + 1 - extent[m->param][m->dim[1 + i]];
		if (high < -most - 1 || high > most || extent[m->param][m->dim[1 + i]] <= 0)
			return 0;
		lower[i] = (int)low;
		upper[i] = (int)high;
	}
	return 1;
}

/* Can the driver encode the form's maps? */
static int
tgp_maps_fit(const TgpKernel *k, const TgpForm *f, const TgpPlan *p, const TgpShape *o)
{
	int lower[TGP_WINDOWS], upper[TGP_WINDOWS];
	int i, j;
	for (i = 0; i < f->nmaps; i++)
		for (j = 0; j < f->map[i].rank; j++)
			if (tgp_mapped(&f->map[i], j, o->extent[f->map[i].param]) > TGP_EXTENT_MOST)
				return 0;
	for (i = 0; i < f->nmaps; i++)
		if (!tgp_corners(k, &f->map[i], p, o->extent, lower, upper))
			return 0;
	return 1;
}

static char *
tgp_map_bytes(TgpPlan *p, int i)
{
	return (char *)(((uintptr_t)p->room + 127) / 128 * 128) + 128 * i;
}

static TgpStatus
tgp_encode(TgpContext *cx, const TgpKernel *k, const TgpMap *m, uintptr_t address, TgpPlan *p, char *to)
{
	static const int type[9] = {0, TGP_MAP_UINT8, TGP_MAP_UINT16, 0, TGP_MAP_UINT32, 0, 0, 0, TGP_MAP_UINT64};
	uint64_t extent[TGP_RANK], stride[TGP_RANK];
	unsigned box[TGP_RANK], step[TGP_RANK];
	int i, is_empty = p->bytes[m->param] == 0, lower[TGP_WINDOWS] = {0}, upper[TGP_WINDOWS] = {0};
	const TgpPlan *made = p;
	for (i = 0; i < m->rank; i++) {
		int64_t n = tgp_mapped(m, i, p->extent[m->param]), s = p->stride[m->param][m->dim[i]] * m->elem_bytes;
		extent[i] = is_empty ? 1 : (uint64_t)n;
		box[i] = (unsigned)m->box[i];
		step[i] = 1;
		if (i > 0)
			stride[i - 1] = is_empty || n <= 1 ? 16 : (uint64_t)s;
	}
	if (is_empty)
		address = (uintptr_t)p->device->nothing + (m->is_stored ? 16 : 0);
	if (!is_empty)
		tgp_corners(k, m, made, made->extent, lower, upper);
	for (i = 0; i < m->windows; i++)
		step[1 + i] = (unsigned)m->window[i].step;
	if (m->windows) {
		TGP_DO(k->param[m->param].name, cuTensorMapEncodeIm2col, to, type[m->elem_bytes], (unsigned)m->rank,
		    (void *)address, extent, stride, lower, upper, box[0], box[1], step, 0,
		    m->swizzle ? tgp_log2(m->swizzle / 16) : 0, TGP_MAP_PROMOTION_128, 0);
		return TGP_OK;
	}
	TGP_DO(k->param[m->param].name, cuTensorMapEncodeTiled, to, type[m->elem_bytes], (unsigned)m->rank, (void *)address, extent,
	    stride, box, step, 0, m->swizzle ? tgp_log2(m->swizzle / 16) : 0, TGP_MAP_PROMOTION_128, 0);
	return TGP_OK;
}

static TgpStatus
tgp_set_maps(TgpContext *cx, const TgpKernel *k, const TgpCall *call, TgpPlan *p)
{
	const TgpForm *f = p->loaded->form;
	TgpStatus status = TGP_OK;
	int i;
	for (i = 0; i < f->nmaps && status == TGP_OK; i++) {
		int param = f->map[i].param, is_empty = p->bytes[param] == 0;
		uintptr_t address = (uintptr_t)call->address[param];
		if (p->mapped[i] && (is_empty || p->mapped[i] == address))
			continue;
		if (p->mapped[i])
			TGP_DO(k->param[param].name, cuTensorMapReplaceAddress, tgp_map_bytes(p, i), (void *)address);
		else
			status = tgp_encode(cx, k, &f->map[i], address, p, tgp_map_bytes(p, i));
		p->mapped[i] = status == TGP_OK ? is_empty ? 1 : address : 0;
	}
	return status;
}
