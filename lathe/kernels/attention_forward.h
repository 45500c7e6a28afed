#pragma once
// Attention forward and decoding, in the manner of FlashAttention (Dao et al., 2022): blocks of
// keys in ascending order, with a running maximum m, a running sum l in sixteen lanes and a running
// output, all corrected whenever the maximum grows:
//
//   S = Q K^T;  m' = max(m, scale max S);  P = exp(scale S - m')      (one fma and one exp)
//   c = exp(m - m');  l = l c + P;  O = O c + P V                     (P V rounded as a product's)
//
// out = O / l and lse = m + log l. Blocks are kKeyBlock keys, counted from token 0, so a query's
// order does not depend on which other queries share its tile.

#include "lathe/kernels/attention_tiles.h"
#include "lathe/kernels/attention_weights.h"

namespace lathe::kernels {

/// Queries on their way through the blocks. Row i sees keys lo[i]..hi[i].
template <class P>
struct Queries {
  using Scalar = typename P::Scalar;
  i64 count, width, depth, padded;  // head size as given, to a multiple of kSumGroup, of kLanes
  Scalar scale;
  typename P::Left* q;  // (count, depth)
  Scalar *m, *l, *out;  // (count), (count, 16), by tiles (kTileRows, padded)
  i32 *lo, *hi;
  Scalar* scores;           // (kTileRows, kKeyBlock), of the tile at hand
  typename P::Left* share;  // P of that tile, packed
  WeightRounding<typename P::L> rounded;

  explicit Queries(const numerics::Encoding& weights) : rounded(weights) {}
};

template <class P>
Queries<P> take_queries(Carve& carve, i64 count, i64 width, double scale,
                        const numerics::Encoding& weights) {
  using Scalar = typename P::Scalar;
  Queries<P> s(weights);
  s.count = count;
  s.width = width;
  s.depth = round_up(width, kSumGroup);
  s.padded = round_up(width, kLanes);
  s.scale = static_cast<Scalar>(scale);
  const i64 rows = round_up(count, kTileRows);
  s.q = carve.take<typename P::Left>(rows * s.depth);
  s.m = carve.take<Scalar>(count);
  s.l = carve.take<Scalar>(count * kLanes);
  s.out = carve.take<Scalar>(rows * s.padded);
  s.lo = carve.take<i32>(count);
  s.hi = carve.take<i32>(count);
  s.scores = carve.take<Scalar>(kTileRows * kKeyBlock);
  s.share = carve.take<typename P::Left>(kTileRows * kKeyBlock);
  for (i64 i = 0; i < count; ++i) s.m[i] = std::numeric_limits<Scalar>::lowest();
  for (i64 i = 0; i < count * kLanes; ++i) s.l[i] = 0;
  for (i64 i = 0; i < rows * s.padded; ++i) s.out[i] = 0;
  return s;
}

/// Where row r of the output starts; its next sixteen columns are kTilePanel further.
template <class P>
LATHE_INLINE typename P::Scalar* out_row(const Queries<P>& s, i64 r) {
  const i64 tile = round_down(r, kTileRows);
  return s.out + tile * s.padded + (r - tile) * kLanes;
}

/// Keys [begin, begin + kKeyChunk) at most, packed by blocks.
template <class P>
struct PackedKeys {
  i64 begin, end;
  typename P::Right *keys, *values;  // a block's: (depth, kKeyBlock), (kKeyBlock, padded)
  bool* spoilt;
};

template <class P>
PackedKeys<P> take_keys(Carve& carve, i64 depth, i64 padded) {
  PackedKeys<P> s;
  s.begin = s.end = 0;
  s.keys = carve.take<typename P::Right>(kKeyChunk * depth / P::kWord);
  s.values = carve.take<typename P::Right>(kKeyChunk * padded / P::kWord);
  s.spoilt = carve.take<bool>(kKeyChunk);
  return s;
}

/// Packs keys [begin, end), begin a multiple of kKeyBlock.
template <class P, class T>
void pack_keys(PackedKeys<P>& to, const Head<T>& k, const Head<T>& v, i64 begin, i64 end) {
  to.begin = begin;
  to.end = end;
  const i64 depth = round_up(k.width, kSumGroup), padded = round_up(k.width, kLanes);
  const Head<T> keys{k.data + begin * k.stride, k.stride, k.count - begin, k.width};
  const Head<T> values{v.data + begin * v.stride, v.stride, v.count - begin, v.width};
  const i64 tokens = round_up(end - begin, kKeyBlock);
  for (i64 t = 0; t < tokens; ++t) {
    fetch_token(keys, t + kFetchAhead);
    fetch_token(values, t + kFetchAhead);
    to.spoilt[t] = !is_finite<P>(keys, t) || !is_finite<P>(values, t);
  }
  for (i64 t = 0; t < tokens; t += kKeyBlock) {
    pack_right_columns<P>(to.keys + t * depth / P::kWord, keys, t, kKeyBlock, to.spoilt,
                          Spoilt::nan);
    pack_right_rows<P>(to.values + t * padded / P::kWord, values, t, kKeyBlock, to.spoilt,
                       Spoilt::zero);
  }
}

/// Scores of one row that it must not see become -inf; [from, to) are the row's own bounds.
template <class L>
LATHE_INLINE L masked(L x, i64 k, i64 lo, i64 hi) {
  using Scalar = typename L::Scalar;
  const L at = lane_numbers<L>();
  const auto seen = (at >= L::broadcast(static_cast<Scalar>(lo - k))) &
                    (at <= L::broadcast(static_cast<Scalar>(hi - k)));
  return select(seen, x, L::broadcast(-std::numeric_limits<Scalar>::infinity()));
}

/// Row r of the tile: scores of keys [k, k + n) to weights, and what has gone before corrected.
template <class P>
LATHE_INLINE void soften(const Queries<P>& s, i64 r, i64 tile_row, i64 k, i64 n) {
  using L = typename P::L;
  using Scalar = typename P::Scalar;
  Scalar* x = s.scores + tile_row * kLanes;  // the next sixteen are a panel further
  const bool partly = s.lo[r] > k || s.hi[r] < k + n - 1;
  L top = L::broadcast(-std::numeric_limits<Scalar>::infinity());
  for (i64 j = 0; j < n / kLanes; ++j) {
    L v = L::load(x + j * kTilePanel);
    if (partly) {
      v = masked(v, k + j * kLanes, s.lo[r], s.hi[r]);
      v.store(x + j * kTilePanel);
    }
    top = max(v, top);
  }
  L l = L::load(s.l + r * kLanes);
  const Scalar reach = top.hmax() * s.scale;
  if (reach > s.m[r]) {
    const L c = L::broadcast(exp(L::broadcast(s.m[r] - reach)).lane0());
    s.m[r] = reach;
    l = l * c;
    Scalar* out = out_row(s, r);
    for (i64 j = 0; j < s.padded / kLanes; ++j)
      (L::load(out + j * kTilePanel) * c).store(out + j * kTilePanel);
  }
  const L scale = L::broadcast(s.scale), m = L::broadcast(-s.m[r]);
  for (i64 j = 0; j < n / kLanes; ++j) {
    const L p = exp(fma(L::load(x + j * kTilePanel), scale, m));
    l = l + p;
    P::put_left(s.share, kKeyBlock, tile_row, j * kLanes, s.rounded(p));
  }
  l.store(s.l + r * kLanes);
}

/// Rows [r, r + n) of the queries against one block of keys that starts at `block`.
template <class P>
void attend(P& p, const Queries<P>& s, i64 r, i64 n, const PackedKeys<P>& keys, i64 block) {
  i64 lo = s.lo[r], hi = s.hi[r];
  for (i64 i = r; i < r + n; ++i) {
    lo = smaller(lo, s.lo[i]);
    hi = larger(hi, s.hi[i]);
  }
  const i64 k = larger(block, round_down(lo, kSumGroup));
  const i64 width = smaller(block + kKeyBlock, round_up(hi + 1, kSumGroup)) - k;
  if (width <= 0) return;
  const i64 at = (block - keys.begin) / P::kWord, skip = (k - block) / P::kWord;
  p.multiply(s.scores, kTilePanel, false, s.q + r * s.depth, s.depth,
             keys.keys + at * s.depth + skip * s.depth, s.depth / P::kWord * kLanes, n, width,
             s.depth);
  for (i64 i = 0; i < n; ++i) soften<P>(s, r + i, i, k, width);
  p.multiply(s.out + r * s.padded, kTilePanel, true, s.share, kKeyBlock,
             keys.values + at * s.padded + skip * kLanes, kKeyBlock / P::kWord * kLanes, n,
             s.padded, width);
}

/// All blocks of [first, end) for all queries.
template <class P, class T>
void attend_all(P& p, const Queries<P>& s, PackedKeys<P>& keys, const Head<T>& k, const Head<T>& v,
                i64 first, i64 end) {
  for (i64 chunk = round_down(first, kKeyBlock); chunk < end; chunk += kKeyChunk) {
    const i64 chunk_end = smaller(end, chunk + kKeyChunk);
    pack_keys<P>(keys, k, v, chunk, chunk_end);
    for (i64 r = 0; r < s.count; r += kTileRows)
      for (i64 block = chunk; block < chunk_end; block += kKeyBlock)
        attend(p, s, r, smaller(kTileRows, s.count - r), keys, block);
  }
}

/// Query row r, divided by its sum.
template <class P, class T>
void finish_row(const Queries<P>& s, i64 r, T* out, typename P::Scalar* lse) {
  using L = typename P::L;
  const L l = L::broadcast(L::load(s.l + r * kLanes).sum());
  for (i64 c = 0; c < s.width; c += kLanes) {
    const L x = L::load(out_row(s, r) + c / kLanes * kTilePanel) / l;
    if (s.width - c >= kLanes)
      x.store(out + c);
    else
      x.store(out + c, s.width - c);
  }
  if (lse) *lse = s.m[r] + log(l).lane0();
}

/// 1 / sqrt(D), rounded once to what the kernels compute in.
LATHE_INLINE double score_scale(i64 head_dim) {
  return 1 / __builtin_sqrt(static_cast<double>(head_dim));
}

/// One span of queries of one head of one row of the batch.
template <class P, class T>
void forward_span(std::byte* scratch, const Tensor& out, const Tensor& lse, const ConstTensor& qkv,
                  const Places& at, const AttentionShape& shape, i64 b, i64 head, i64 begin) {
  const i64 d = shape.head_dim, row = b * at.time, end = smaller(at.time, begin + kQuerySpan);
  const i64 kv_head = head / (shape.heads / shape.kv_heads);
  const bool* none = nullptr;
  P p;
  Carve carve{scratch};
  Queries<P> s = take_queries<P>(carve, end - begin, d, score_scale(d), shape.weights);
  PackedKeys<P> keys = take_keys<P>(carve, s.depth, s.padded);
  const Head<T> q = head_of<T>(qkv, row + begin, end - begin, head * d, d);
  const Head<T> k = head_of<T>(qkv, row, at.time, (shape.heads + kv_head) * d, d);
  const Head<T> v = head_of<T>(qkv, row, at.time, (shape.heads + shape.kv_heads + kv_head) * d, d);
  pack_left<P>(s.q, q, 0, s.count, none, Spoilt::nan);
  i64 first = end;
  for (i64 i = 0; i < s.count; ++i) {
    const i64 lo = first_seen(at.doc_start + row, shape.window, begin + i);
    s.lo[i] = static_cast<i32>(lo);
    s.hi[i] = static_cast<i32>(begin + i);
    first = smaller(first, lo);
  }
  attend_all(p, s, keys, k, v, first, end);
  for (i64 i = 0; i < s.count; ++i)
    finish_row<P>(s, i, out.row<T>(row + begin + i) + head * d,
                  lse.row<typename P::Scalar>(row + begin + i) + head);
}

template <class P, class T>
void forward(Queue& q, const Tensor& out, const Tensor& lse, const ConstTensor& qkv,
             const Places& at, const AttentionShape& shape) {
  const i64 spans = (at.time + kQuerySpan - 1) / kQuerySpan;
  for_pieces(q, at.batch * shape.heads * spans, [&](i64 piece, int worker) {
    // The last span sees most keys: it goes first, so that no thread ends alone with it.
    const i64 span = spans - 1 - piece / (at.batch * shape.heads);
    const i64 b = piece / shape.heads % at.batch, head = piece % shape.heads;
    forward_span<P, T>(q.scratch(worker), out, lse, qkv, at, shape, b, head, span * kQuerySpan);
  });
}

/// The queries that share a key and value head go through together.
template <class P, class T>
void decode(Queue& queue, const Tensor& out, const ConstTensor& q, const ConstTensor& keys,
            const ConstTensor& values, i64 length, const AttentionShape& shape) {
  for_pieces(queue, shape.kv_heads, [&](i64 kv_head, int worker) {
    const i64 d = shape.head_dim, group = shape.heads / shape.kv_heads;
    const bool* none = nullptr;
    P p;
    Carve carve{queue.scratch(worker)};
    Queries<P> s = take_queries<P>(carve, group, d, score_scale(d), shape.weights);
    PackedKeys<P> packed = take_keys<P>(carve, s.depth, s.padded);
    const i64 lo = shape.window > 0 ? larger(0, length - shape.window) : 0;
    for (i64 i = 0; i < group; ++i) {
      s.lo[i] = static_cast<i32>(lo);
      s.hi[i] = static_cast<i32>(length - 1);
    }
    const T* first = q.row<T>(0) + kv_head * group * d;
    pack_left<P>(s.q, Head<T>{first, d, group, d}, 0, group, none, Spoilt::nan);
    attend_all(p, s, packed, head_of<T>(keys, 0, length, kv_head * d, d),
               head_of<T>(values, 0, length, kv_head * d, d), lo, length);
    for (i64 i = 0; i < group; ++i)
      finish_row<P>(s, i, out.row<T>(0) + (kv_head * group + i) * d, nullptr);
  });
}

}  // namespace lathe::kernels
