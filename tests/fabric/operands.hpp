// Owns the memory of all members for one operation, with random contents from a seed, and its expected contents
// afterwards. They are computed by a slow and simple method: piece by piece, one member after the other.
#pragma once

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <random>
#include <vector>

#include "fabric/layout.hpp"
#include "kernels/base/half.hpp"
#include "kernels/sums/reduce.hpp"
#include "tests/fabric/shared_vector.hpp"

namespace troupe::tests {

using bytes = shared_vector<std::byte>;

/// An operation to test: a request without memory, its pieces, the number of members, and whether it is in place.
struct scene {
  fabric::request request;
  std::vector<fabric::piece> pieces;
  uint32_t size = 1;
  bool in_place = false;
};

/// Returns `count` random elements: numbers between -4 and 4 in a floating-point type, random bytes in other types.
inline bytes random_elements(core::dtype type, uint64_t count, std::mt19937& random) {
  std::uniform_real_distribution<float> number(-4, 4);
  bytes out(count * core::size_of(type));
  const auto store = [&](uint64_t i, const auto& value) {
    std::memcpy(out.data() + i * sizeof(value), &value, sizeof(value));
  };
  for (uint64_t i = 0; i < count; ++i) {
    const float x = number(random);
    switch (type) {
      case core::dtype::f64:
        store(i, static_cast<double>(x) * 1.000000001);
        break;
      case core::dtype::f32:
        store(i, x);
        break;
      case core::dtype::bf16:
        store(i, kernels::narrow<kernels::bf16>(x));
        break;
      case core::dtype::f16:
        store(i, kernels::narrow<kernels::f16>(x));
        break;
      default:
        for (size_t b = 0; b < core::size_of(type); ++b)
          out[i * core::size_of(type) + b] = static_cast<std::byte>(random());
    }
  }
  return out;
}

class operands {
 public:
  operands(scene s, uint64_t sequence, uint32_t seed) : scene_(std::move(s)) {
    scene_.request.pieces = scene_.pieces;
    scene_.request.id = {.step = 3, .communicator = 1, .sequence = sequence, .what = fmt::format("operation {}", seed)};
    std::mt19937 random(seed);
    for (uint32_t rank = 0; rank < scene_.size; ++rank) {
      const fabric::extent e = fabric::extent_of(scene_.request.op, scene_.pieces, rank);
      const uint64_t input = scene_.in_place ? std::max(e.input, e.output) : e.input;
      inputs_.push_back(random_elements(scene_.request.input_type, input + 3, random));
      outputs_.push_back(random_elements(scene_.request.output_type, scene_.in_place ? 0 : e.output + 3, random));
    }
    wanted_ = scene_.in_place ? inputs_ : outputs_;
    for (uint32_t rank = 0; rank < scene_.size; ++rank) expect(rank);
    inputs_before_ = inputs_;
  }

  /// Returns the request of `rank`; it remains valid until this object is moved.
  [[nodiscard]] fabric::request request(uint32_t rank) {
    fabric::request r = scene_.request;
    r.pieces = scene_.pieces;
    r.input = inputs_[rank].data();
    r.output = scene_.in_place ? inputs_[rank].data() : outputs_[rank].data();
    return r;
  }

  /// Checks that outputs and the gaps between their pieces are as expected, and that inputs are unchanged.
  void check() const {
    const auto& r = scene_.request;
    for (uint32_t rank = 0; rank < scene_.size; ++rank) {
      const bool right = (scene_.in_place ? inputs_ : outputs_)[rank] == wanted_[rank];
      const bool kept = scene_.in_place || inputs_[rank] == inputs_before_[rank];
      BOOST_TEST(right, name_of(r.op) << " of rank " << rank << " of " << scene_.size << ", " << name_of(r.input_type)
                                      << " over " << name_of(r.communication) << " to " << name_of(r.output_type)
                                      << (r.accumulate ? ", added" : "") << (scene_.in_place ? ", in place" : "")
                                      << ", " << scene_.pieces.size() << " pieces");
      BOOST_TEST(kept, name_of(r.op) << " changed the input of rank " << rank);
    }
  }

 private:
  void expect(uint32_t rank) {
    const fabric::request& r = scene_.request;
    for (const fabric::piece& p : scene_.pieces) {
      if (!fabric::writes_output(r.op, p, rank)) continue;
      const uint64_t in_size = core::size_of(r.input_type);
      std::byte* to = wanted_[rank].data() + p.to * core::size_of(r.output_type);
      if (fabric::is_reduction(r.op)) {
        std::vector<const std::byte*> from;
        for (const bytes& input : inputs_) from.push_back(input.data() + p.from * in_size);
        kernels::sum_in_rank_order_reference(
            from, to, p.count, {r.input_type, r.communication, r.output_type, r.input_scale, r.accumulate});
      } else if (p.count > 0) {
        const uint64_t from = p.from + (r.op == fabric::operation::all_to_all ? rank * p.count : 0);
        std::memmove(to, inputs_[p.owner].data() + from * in_size, p.count * in_size);
      }
    }
  }

  scene scene_;
  std::vector<bytes> inputs_, outputs_, wanted_, inputs_before_;
};

/// Returns `count` pieces of up to `most` elements with random owners and gaps between them, some of them empty, at
/// offsets that are valid for `op`. The member `idle` owns none.
inline std::vector<fabric::piece> ragged_pieces(fabric::operation op, uint32_t size, bool in_place, size_t count,
                                                uint64_t most, std::mt19937& random, uint32_t idle = ~0U) {
  std::vector<fabric::piece> out;
  std::vector<uint64_t> owned(size);  // number of elements in each owner's array
  uint64_t full = random() % 5;       // number of elements in the array of all pieces
  const auto root = static_cast<uint32_t>(random() % size);
  for (size_t i = 0; i < count; ++i) {
    fabric::piece p;
    p.owner = op == fabric::operation::broadcast ? root : static_cast<uint32_t>(random() % size);
    if (p.owner == idle) p.owner = (idle + 1) % size;
    p.count = random() % 4 == 0 ? 0 : random() % (most + 1);
    uint64_t& own = owned[p.owner];
    p.from = fabric::is_reduction(op) ? full : own;
    p.to = op == fabric::operation::reduce_scatter ? own : full;
    if (fabric::is_reduction(op)) p.from += 7;
    if (in_place) p.from = p.to = full;
    own += p.count + random() % 3;
    full += p.count + random() % 3;
    out.push_back(p);
  }
  std::shuffle(out.begin(), out.end(), random);
  return out;
}

/// Returns pieces of a reduce-scatter with replicas: each range has an owner in every group of `group` neighbouring
/// members, and the pieces of a range follow one another. `size` must be a multiple of `group`.
inline std::vector<fabric::piece> pieces_of_replicas(uint32_t size, uint32_t group, bool in_place, size_t count,
                                                     uint64_t most, std::mt19937& random) {
  std::vector<fabric::piece> out;
  std::vector<uint64_t> owned(size);
  uint64_t full = random() % 5;
  for (size_t i = 0; i < count; ++i) {
    const auto place = static_cast<uint32_t>(random() % group);
    const uint64_t n = random() % (most + 1);
    for (uint32_t owner = place; owner < size; owner += group) {
      out.push_back({owner, full, in_place ? full : owned[owner], n});
      owned[owner] += n + random() % 3;  // replicas may store the range at different offsets
    }
    full += n + 1 + random() % 3;
  }
  return out;
}

}  // namespace troupe::tests
