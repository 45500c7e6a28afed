#pragma once
// Attention backward. With P = exp(scale S - lse), the softmax's weights made again from what
// forward kept, delta = sum over the head of dO O, and g the scale:
//
//   dV = P^T dO     dP = dO V^T     dS = P (dP - delta)     dQ = g dS K     dK = g dS^T Q
//
// A tile is kTileRows keys by kBackQueries queries, worked on transposed: a row per key, a lane per
// query. Then P^T and dS^T come out as the left operands that dV and dK take, lse and delta are
// plain vectors, and dS^T is also the right operand of dQ^T = K^T dS^T: nothing is ever turned
// round but Q and K once, when they are packed.
//
// Order: every element of dQ is a sum over keys in ascending order, every element of dK and dV one
// over the query heads of the group in ascending order and over the queries of each, all in
// gemm.h's groups of 32. So it does not matter how a sweep is cut: a key and value head whose
// gradients fit a worker's scratch goes in one sweep, a longer one in two (queries, then keys) with
// the scores made twice, and the bits are the same.

#include "lathe/kernels/attention_forward.h"
#include "lathe/kernels/attention_tiles.h"

namespace lathe::kernels {

/// What backward reads and writes, of one row of the batch.
template <class T>
struct BackwardRow {
  ConstTensor qkv, dout, out, lse;
  Tensor dqkv;
  const i32* doc_start;
  i64 time, row;  // tokens, and where they start in the tensors
  AttentionShape shape;
};

/// A chunk of queries of one head, packed, with the gradient that grows.
template <class P>
struct BackQueries {
  using Scalar = typename P::Scalar;
  using Right = typename P::Right;
  i64 begin, count;                   // count: a multiple of kSumGroup
  Right *q_columns, *dout_columns;    // (depth, count)
  Right *q_rows, *dout_rows;          // by tiles: (kBackQueries, padded)
  Scalar* dq;                         // transposed: panels of sixteen queries (padded, 16)
  Scalar *lse, *delta, *lo, *number;  // (count): number is the query's own
  i64* first;                         // (count / kSumGroup): first token that a group sees
  bool* spoilt;
};

/// A block of keys, packed.
template <class P>
struct BackKeys {
  typename P::Left *keys, *values;    // (kTileRows, depth)
  typename P::Left* keys_transposed;  // (padded, kTileRows)
  bool* spoilt;
};

/// A tile on its way from scores to gradients.
template <class P>
struct BackTile {
  typename P::Scalar *scores, *dshare;  // S^T, dP^T (kTileRows, kBackQueries)
  typename P::Left *share, *dscores;    // P^T, dS^T, likewise
  typename P::Right* dscores_right;     // dS^T (kTileRows, kBackQueries)
};

template <class P>
struct BackScratch {
  i64 depth, padded;
  typename P::Scalar scale;
  BackQueries<P> q;
  BackKeys<P> k;
  BackTile<P> tile;
  WeightRounding<typename P::L> rounded;
  i64 bytes;                    // all of it
  typename P::Scalar *dk, *dv;  // keys of the sweep, by tiles (kTileRows, padded)

  explicit BackScratch(const numerics::Encoding& weights) : rounded(weights) {}
};

template <class P>
BackScratch<P> take_back(std::byte* memory, i64 width, i64 keys,
                         const numerics::Encoding& weights) {
  using Scalar = typename P::Scalar;
  using Left = typename P::Left;
  using Right = typename P::Right;
  Carve carve{memory};
  BackScratch<P> s(weights);
  s.depth = round_up(width, kSumGroup);
  s.padded = round_up(width, kLanes);
  s.scale = static_cast<Scalar>(score_scale(width));
  s.q.q_columns = carve.take<Right>(kBackChunk * s.depth / P::kWord);
  s.q.dout_columns = carve.take<Right>(kBackChunk * s.depth / P::kWord);
  s.q.q_rows = carve.take<Right>(kBackChunk * s.padded / P::kWord);
  s.q.dout_rows = carve.take<Right>(kBackChunk * s.padded / P::kWord);
  s.q.dq = carve.take<Scalar>(kBackChunk * s.padded);
  s.q.lse = carve.take<Scalar>(kBackChunk);
  s.q.delta = carve.take<Scalar>(kBackChunk);
  s.q.lo = carve.take<Scalar>(kBackChunk);
  s.q.number = carve.take<Scalar>(kBackChunk);
  s.q.first = carve.take<i64>(kBackChunk / kSumGroup);
  s.q.spoilt = carve.take<bool>(kBackChunk);
  s.k.keys = carve.take<Left>(kTileRows * s.depth);
  s.k.values = carve.take<Left>(kTileRows * s.depth);
  s.k.keys_transposed = carve.take<Left>(kTileRows * s.padded);
  s.k.spoilt = carve.take<bool>(kTileRows);
  s.tile.scores = carve.take<Scalar>(kTileRows * kBackQueries);
  s.tile.dshare = carve.take<Scalar>(kTileRows * kBackQueries);
  s.tile.share = carve.take<Left>(kTileRows * kBackQueries);
  s.tile.dscores = carve.take<Left>(kTileRows * kBackQueries);
  s.tile.dscores_right = carve.take<Right>(kTileRows * kBackQueries / P::kWord);
  s.dk = carve.take<Scalar>(keys * s.padded);
  s.dv = carve.take<Scalar>(keys * s.padded);
  s.bytes = carve.used;
  return s;
}

/// lse, delta and what each query sees; a query past the end sees nothing.
template <class P, class T>
void read_queries(BackQueries<P>& q, const BackwardRow<T>& x, i64 head, const Head<T>& dout) {
  using L = typename P::L;
  using Scalar = typename P::Scalar;
  const i64 d = x.shape.head_dim;
  const Head<T> out = head_of<T>(x.out, x.row + q.begin, dout.count, head * d, d);
  for (i64 g = 0; g < q.count / kSumGroup; ++g) q.first[g] = x.time;
  for (i64 i = 0; i < q.count; ++i) {
    const i64 t = q.begin + i;
    const bool inside = t < x.time;
    fetch_token(out, i + kFetchAhead);
    fetch_token(dout, i + kFetchAhead);
    L delta = L::broadcast(0);
    for (i64 c = 0; c < d; c += kLanes)
      delta = fma(load_head<P>(dout, i, c), load_head<P>(out, i, c), delta);
    q.delta[i] = delta.sum();
    q.lse[i] = inside ? x.lse.template row<Scalar>(x.row + t)[head] : Scalar{0};
    const i64 lo = inside ? first_seen(x.doc_start, x.shape.window, t) : x.time;
    q.lo[i] = inside ? static_cast<Scalar>(lo) : std::numeric_limits<Scalar>::max();
    q.number[i] = static_cast<Scalar>(t);
    q.first[i / kSumGroup] = smaller(q.first[i / kSumGroup], lo);
  }
}

/// Queries [begin, begin + kBackChunk) of a head, as far as there are any.
template <class P, class T>
void pack_queries(BackScratch<P>& s, const BackwardRow<T>& x, i64 head, i64 begin) {
  BackQueries<P>& q = s.q;
  const i64 d = x.shape.head_dim, inside = smaller(kBackChunk, x.time - begin);
  q.begin = begin;
  q.count = round_up(inside, kSumGroup);
  const Head<T> query = head_of<T>(x.qkv, x.row + begin, inside, head * d, d);
  const Head<T> dout = head_of<T>(x.dout, x.row + begin, inside, head * d, d);
  read_queries<P>(q, x, head, dout);
  for (i64 i = 0; i < q.count; ++i) {
    fetch_token(query, i + kFetchAhead);
    q.spoilt[i] = !is_finite<P>(query, i) || !is_finite<P>(dout, i);
  }
  pack_right_columns<P>(q.q_columns, query, 0, q.count, q.spoilt, Spoilt::nan);
  pack_right_columns<P>(q.dout_columns, dout, 0, q.count, q.spoilt, Spoilt::nan);
  for (i64 i = 0; i < q.count; i += kBackQueries) {
    const i64 n = smaller(kBackQueries, q.count - i), to = i * s.padded / P::kWord;
    pack_right_rows<P>(q.q_rows + to, query, i, n, q.spoilt, Spoilt::zero);
    pack_right_rows<P>(q.dout_rows + to, dout, i, n, q.spoilt, Spoilt::zero);
  }
  for (i64 i = 0; i < kBackChunk * s.padded; ++i) q.dq[i] = 0;
}

template <class P, class T>
void pack_back_keys(BackScratch<P>& s, const BackwardRow<T>& x, i64 kv_head, i64 begin) {
  const i64 d = x.shape.head_dim, left = x.time - begin;
  const i64 column = (x.shape.heads + kv_head) * d, values = column + x.shape.kv_heads * d;
  const Head<T> k = head_of<T>(x.qkv, x.row + begin, left, column, d);
  const Head<T> v = head_of<T>(x.qkv, x.row + begin, left, values, d);
  for (i64 i = 0; i < kTileRows; ++i) s.k.spoilt[i] = !is_finite<P>(k, i) || !is_finite<P>(v, i);
  pack_left<P>(s.k.keys, k, 0, kTileRows, s.k.spoilt, Spoilt::nan);
  pack_left<P>(s.k.values, v, 0, kTileRows, s.k.spoilt, Spoilt::nan);
  pack_left_transposed<P>(s.k.keys_transposed, k, 0, kTileRows, s.k.spoilt, Spoilt::zero);
  for (i64 i = kTileRows; i < 2 * kTileRows; ++i) {
    fetch_token(k, i);
    fetch_token(v, i);
  }
}

/// Scores and dP of a tile to P and dS: keys from `key`, n queries from q.begin + i. Four keys at a
/// time, as a right operand takes them.
template <class P, bool kMasked>
void weigh(const BackScratch<P>& s, i64 key, i64 i, i64 n) {
  using L = typename P::L;
  using Scalar = typename P::Scalar;
  const L scale = L::broadcast(s.scale), zero = L::broadcast(0);
  for (i64 j = 0; j < n; j += kLanes) {
    const L lse = L::load(s.q.lse + i + j), delta = L::load(s.q.delta + i + j);
    const L lo = L::load(s.q.lo + i + j), number = L::load(s.q.number + i + j);
    for (i64 r = 0; r < kTileRows; r += 4) {
      L ds[4];
#pragma GCC unroll 4
      for (i64 u = 0; u < 4; ++u) {
        const i64 at = j * kTileRows + (r + u) * kLanes;
        L p = exp(fma(L::load(s.tile.scores + at), scale, -lse));
        ds[u] = p * (L::load(s.tile.dshare + at) - delta);
        if constexpr (kMasked) {
          const L self = L::broadcast(static_cast<Scalar>(key + r + u));
          const auto seen = (lo <= self) & (self <= number);
          p = select(seen, p, zero);
          ds[u] = select(seen, ds[u], zero);
        }
        P::put_left(s.tile.share, kBackQueries, r + u, j, s.rounded(p));
        P::put_left(s.tile.dscores, kBackQueries, r + u, j, ds[u]);
      }
      P::put_right(s.tile.dscores_right + j * kTileRows / P::kWord, r, ds);
    }
  }
}

/// What a sweep is after.
enum class Wanted : u8 { all, queries, keys };

/// One tile: n queries from q.begin + i, against the keys packed, whose gradients are dk and dv.
template <class P, Wanted kWanted>
void back_tile(P& p, const BackScratch<P>& s, i64 key, i64 i, i64 n, typename P::Scalar* dk,
               typename P::Scalar* dv) {
  const i64 panel = s.depth / P::kWord * kLanes, column = i * s.depth / P::kWord;
  p.multiply(s.tile.scores, kTilePanel, false, s.k.keys, s.depth, s.q.q_columns + column, panel,
             kTileRows, n, s.depth);
  p.multiply(s.tile.dshare, kTilePanel, false, s.k.values, s.depth, s.q.dout_columns + column,
             panel, kTileRows, n, s.depth);
  bool partly = s.q.begin + i < key + kTileRows - 1;
  for (i64 j = i; j < i + n; ++j) partly |= s.q.lo[j] > static_cast<typename P::Scalar>(key);
  if (partly)
    weigh<P, true>(s, key, i, n);
  else
    weigh<P, false>(s, key, i, n);
  const i64 tile = round_down(i, kBackQueries);
  if constexpr (kWanted != Wanted::queries) {
    const i64 rows = (tile * s.padded + (i - tile) * kLanes) / P::kWord;
    const i64 height = smaller(kBackQueries, s.q.count - tile) / P::kWord * kLanes;
    p.multiply(dv, kTilePanel, true, s.tile.share, kBackQueries, s.q.dout_rows + rows, height,
               kTileRows, s.padded, n);
    p.multiply(dk, kTilePanel, true, s.tile.dscores, kBackQueries, s.q.q_rows + rows, height,
               kTileRows, s.padded, n);
  }
  if constexpr (kWanted != Wanted::keys)
    p.multiply(s.q.dq + i * s.padded, s.padded * kLanes, true, s.k.keys_transposed, kTileRows,
               s.tile.dscores_right, kTileRows / P::kWord * kLanes, s.padded, n, kTileRows);
}

/// The chunk's queries that see any of the keys from `key`, tile by tile.
template <class P, Wanted kWanted>
void back_tiles(P& p, const BackScratch<P>& s, i64 key, typename P::Scalar* dk,
                typename P::Scalar* dv) {
  const auto sees = [&](i64 i) { return s.q.first[i / kSumGroup] < key + kTileRows; };
  for (i64 tile = 0; tile < s.q.count; tile += kBackQueries) {
    i64 i = larger(tile, key - s.q.begin), end = smaller(tile + kBackQueries, s.q.count);
    while (i < end && !sees(i)) i += kSumGroup;
    while (end > i && !sees(end - kSumGroup)) end -= kSumGroup;
    if (i < end) back_tile<P, kWanted>(p, s, key, i, end - i, dk, dv);
  }
}

/// dQ of a chunk: turned round, scaled, and written.
template <class P, class T>
void write_dq(const BackScratch<P>& s, const BackwardRow<T>& x, i64 head) {
  using L = typename P::L;
  const i64 d = x.shape.head_dim;
  alignas(64) typename P::Scalar block[kLanes * kLanes];
  for (i64 i = 0; i < s.q.count; i += kLanes)
    for (i64 c = 0; c < d; c += kLanes) {
      const typename P::Scalar* from = s.q.dq + i * s.padded + c * kLanes;
      for (i64 r = 0; r < kLanes; ++r) L::load(from + r * kLanes).store(block + r * kLanes);
      P::transpose(block);
      for (i64 r = 0; r < kLanes && s.q.begin + i + r < x.time; ++r) {
        const L g = L::load(block + r * kLanes) * L::broadcast(s.scale);
        g.store(x.dqkv.template row<T>(x.row + s.q.begin + i + r) + head * d + c,
                smaller(kLanes, d - c));
      }
    }
}

/// `count` keys from `begin` of dK and dV.
template <class P, class T>
void write_dkv(const BackScratch<P>& s, const BackwardRow<T>& x, i64 kv_head, i64 begin,
               i64 count) {
  using L = typename P::L;
  const i64 d = x.shape.head_dim, column = (x.shape.heads + kv_head) * d;
  for (i64 i = 0; i < count; ++i) {
    const i64 tile = round_down(i, kTileRows);
    T* dk = x.dqkv.template row<T>(x.row + begin + i) + column;
    T* dv = dk + x.shape.kv_heads * d;
    for (i64 c = 0; c < d; c += kLanes) {
      const i64 n = smaller(kLanes, d - c),
                at = tile * s.padded + c * kTileRows + (i - tile) * kLanes;
      (L::load(s.dk + at) * L::broadcast(s.scale)).store(dk + c, n);
      L::load(s.dv + at).store(dv + c, n);
    }
  }
}

/// Query heads [head, head + heads) of one key and value head, keys [key, key_end) that it is asked
/// about, queries [query, query_end): both starting on a multiple of their chunks.
struct Sweep {
  i64 head, heads, kv_head, key, key_end, query, query_end;
};

template <class P, class T, Wanted kWanted>
void sweep(std::byte* scratch, const BackwardRow<T>& x, const Sweep& w) {
  const i64 keys = kWanted == Wanted::queries ? 0 : round_up(w.key_end - w.key, kTileRows);
  P p;
  BackScratch<P> s = take_back<P>(scratch, x.shape.head_dim, keys, x.shape.weights);
  for (i64 i = 0; i < keys * s.padded; ++i) s.dk[i] = s.dv[i] = 0;
  for (i64 head = w.head; head < w.head + w.heads; ++head)
    for (i64 begin = w.query; begin < w.query_end; begin += kBackChunk) {
      pack_queries<P>(s, x, head, begin);
      i64 first = x.time;
      for (i64 g = 0; g < s.q.count / kSumGroup; ++g) first = smaller(first, s.q.first[g]);
      const i64 end = smaller(w.key_end, begin + s.q.count);
      for (i64 key = larger(w.key, round_down(first, kTileRows)); key < end; key += kTileRows) {
        pack_back_keys<P>(s, x, w.kv_head, key);
        const i64 at = kWanted == Wanted::queries ? 0 : (key - w.key) * s.padded;
        back_tiles<P, kWanted>(p, s, key, s.dk + at, s.dv + at);
      }
      if constexpr (kWanted != Wanted::keys) write_dq<P>(s, x, head);
    }
  if constexpr (kWanted != Wanted::queries) write_dkv<P>(s, x, w.kv_head, w.key, w.key_end - w.key);
}

/// Keys of a sweep where all do not fit.
inline constexpr i64 kSweepKeys = 512;

/// One piece of the two sweeps over a row too long for one: first the queries', then the keys'.
template <class P, class T>
void sweep_piece(std::byte* scratch, const BackwardRow<T>& x, i64 piece, i64 chunks) {
  const i64 group = x.shape.heads / x.shape.kv_heads;
  if (piece < x.shape.heads * chunks) {
    const i64 head = piece % x.shape.heads, begin = piece / x.shape.heads * kBackChunk;
    sweep<P, T, Wanted::queries>(
        scratch, x, {head, 1, head / group, 0, x.time, begin, smaller(x.time, begin + kBackChunk)});
    return;
  }
  const i64 rest = piece - x.shape.heads * chunks, kv_head = rest % x.shape.kv_heads;
  const i64 key = rest / x.shape.kv_heads * kSweepKeys;
  sweep<P, T, Wanted::keys>(
      scratch, x,
      {kv_head * group, group, kv_head, key, smaller(x.time, key + kSweepKeys),
       round_down(key, kBackChunk), x.time});
}

template <class P, class T>
void backward(Queue& q, const Tensor& dqkv, const ConstTensor& dout, const ConstTensor& out,
              const ConstTensor& lse, const ConstTensor& qkv, const Places& at,
              const AttentionShape& shape) {
  const auto row_of = [&](i64 b) {
    return BackwardRow<T>{qkv,     dout,        out,  lse, dqkv, at.doc_start + b * at.time,
                          at.time, b * at.time, shape};
  };
  const i64 keys = round_up(at.time, kTileRows);
  const i64 group = shape.heads / shape.kv_heads;
  if (take_back<P>(nullptr, shape.head_dim, keys, shape.weights).bytes <= Queue::kWorkerScratch) {
    for_pieces(q, at.batch * shape.kv_heads, [&](i64 piece, int worker) {
      const i64 kv_head = piece % shape.kv_heads;
      sweep<P, T, Wanted::all>(q.scratch(worker), row_of(piece / shape.kv_heads),
                               {kv_head * group, group, kv_head, 0, at.time, 0, at.time});
    });
    return;
  }
  const i64 chunks = (at.time + kBackChunk - 1) / kBackChunk;
  const i64 spans = (at.time + kSweepKeys - 1) / kSweepKeys;
  const i64 pieces = shape.heads * chunks + shape.kv_heads * spans;
  for_pieces(q, at.batch * pieces, [&](i64 piece, int worker) {
    sweep_piece<P, T>(q.scratch(worker), row_of(piece / pieces), piece % pieces, chunks);
  });
}

}  // namespace lathe::kernels
