// What the tests of the native format share: tensors with known bytes, cut over writers, saved.
#pragma once

#include <algorithm>
#include <array>
#include <random>

#include "checkpoint/commit/commit.hpp"
#include "checkpoint/source/load_plan.hpp"
#include "checkpoint/source/native_read.hpp"
#include "checkpoint/source/verify.hpp"
#include "tests/checkpoint/tensors.hpp"

namespace troupe::tests {

struct sample_tensor {  ///< all of a tensor's bytes
  checkpoint::tensor_entry entry;
  std::vector<std::byte> data;
};

/// Every kind and odd sizes; the bytes depend on the seed.
inline std::vector<sample_tensor> sample_tensors(uint64_t seed) {
  using checkpoint::tensor_kind;
  using core::dtype;
  std::vector<sample_tensor> out;
  const auto add = [&](std::string name, tensor_kind kind, std::string moment, dtype type, std::vector<int64_t> shape) {
    const auto bytes = checkpoint::bytes_of(type, shape).value();
    checkpoint::tensor_entry entry{std::move(name), kind, std::move(moment), type, std::move(shape), {}};
    out.push_back({std::move(entry), noise(bytes, core::mix64(seed) + out.size())});
  };
  add("h.0.weight", tensor_kind::master, "", dtype::f32, {37, 61});
  add("h.0.weight", tensor_kind::moment, "exp_avg", dtype::f32, {37, 61});
  add("h.0.weight", tensor_kind::moment, "exp_avg_sq", dtype::f32, {37, 61});
  add("h.0.weight", tensor_kind::weight, "", dtype::bf16, {37, 61});
  add("h.0.bias", tensor_kind::master, "", dtype::f32, {3});
  add("frozen", tensor_kind::frozen, "", dtype::f16, {2, 1024, 1});
  add("empty", tensor_kind::frozen, "", dtype::f32, {0, 7});
  add("mask", tensor_kind::buffer, "", dtype::boolean, {5});
  add("scalar", tensor_kind::buffer, "", dtype::i64, {});
  return out;
}

/// Elements that writer `w` of `writers` owns: blocks of 1,024 in order, as runs cut them.
inline std::pair<uint64_t, uint64_t> share_of(uint64_t elements, uint32_t w, uint32_t writers) {
  const uint64_t blocks = core::div_up(elements, core::partition_grain);
  const uint64_t first = std::min(elements, blocks * w / writers * core::partition_grain);
  const uint64_t last = std::min(elements, blocks * (w + 1) / writers * core::partition_grain);
  return {first, last - first};
}

/// How save_sample() hands over pieces.
enum class piece_way : uint8_t { whole_and_by_source, in_flight };

/// Memory that writes in flight lie in; outlives the file.
struct write_ring {
  static constexpr size_t block_bytes = 2 * checkpoint::piece_alignment_bytes;
  struct alignas(checkpoint::piece_alignment_bytes) block {
    std::array<std::byte, block_bytes> bytes;
    uint64_t ticket = 0;
  };
  std::vector<block> blocks = std::vector<block>(4);
  size_t turn = 0;
};

/// One piece in blocks; nothing is waited for but the memory of the next.
inline core::result<checkpoint::written_piece> append_in_flight(checkpoint::shard_writer& to, write_ring& ring,
                                                                std::span<const std::byte> bytes) {
  using core::fail;
  for (size_t done = 0; done < bytes.size(); ++ring.turn) {
    auto& b = ring.blocks[ring.turn % ring.blocks.size()];
    if (b.ticket != 0 && !to.is_over(b.ticket))
      if (auto ok = to.wait(b.ticket); !ok) return fail(ok.error());
    const size_t n = std::min(write_ring::block_bytes, bytes.size() - done);
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(done), n, b.bytes.begin());
    const auto padded = static_cast<size_t>(core::round_up(n, checkpoint::piece_alignment_bytes));
    const auto ticket = to.start_block(std::span(b.bytes).first(padded), n);
    if (!ticket) return fail(ticket.error());
    b.ticket = *ticket;
    done += n;
  }
  return to.end_piece();
}

/// Saves `tensors` over `writers` files; `m` may hold run state and ties.
inline core::result<std::filesystem::path> save_sample(checkpoint::file_system& files,
                                                       const std::filesystem::path& root, uint64_t step,
                                                       const std::vector<sample_tensor>& tensors, uint32_t writers,
                                                       checkpoint::manifest m = {},
                                                       checkpoint::digest128 id = checkpoint::random_save_id(),
                                                       piece_way way = piece_way::whole_and_by_source,
                                                       const checkpoint::commit_options& options = {}) {
  using core::fail;
  auto save = checkpoint::checkpoint_save::begin(files, root, step, 1, id, options);
  if (!save) return fail(save.error());
  for (const auto& t : tensors) m.tensors.push_back(t.entry);
  for (uint32_t w = 0; w < writers; ++w) {
    write_ring ring;
    auto shard = save->create_shard(w);
    if (!shard) return fail(shard.error());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const uint64_t element_bytes = core::size_of(tensors[i].entry.type);
      const auto [first, count] = share_of(tensors[i].data.size() / element_bytes, w, writers);
      if (count == 0) continue;
      const auto bytes = std::span(tensors[i].data).subspan(first * element_bytes, count * element_bytes);
      const auto source = [bytes](uint64_t offset, std::span<std::byte> out) -> core::result<void> {
        std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
        return {};
      };
      const auto wrote = way == piece_way::in_flight ? append_in_flight(*shard, ring, bytes)
                         : i % 2 == 0                ? shard->append(bytes)
                                                     : shard->append(bytes.size(), source);
      if (!wrote) return fail(wrote.error());
      m.tensors[i].pieces.push_back({w, first, count, wrote->offset_bytes, wrote->digest});
    }
    auto done = shard->finish();
    if (!done) return fail(done.error());
    m.files.push_back(std::move(*done));
  }
  return save->commit(std::move(m));
}

/// Loads all of `tensors`, reader after reader, and compares every byte.
inline void check_loads(checkpoint::file_system& files, const checkpoint::checkpoint_folder& from,
                        const std::vector<sample_tensor>& tensors, uint32_t readers) {
  for (uint32_t r = 0; r < readers; ++r) {
    std::vector<checkpoint::wanted_slice> wanted;
    std::vector<std::byte> expected;
    for (const auto& t : tensors) {
      const auto& e = t.entry;
      const uint64_t size = core::size_of(e.type), n = t.data.size() / size;
      // not along the writers' grain
      const uint64_t first = n * r / readers, count = n * (r + 1) / readers - first;
      wanted.push_back({e.name, e.kind, e.moment, e.type, e.shape, first, count, expected.size()});
      expected.insert(expected.end(), t.data.begin() + static_cast<ptrdiff_t>(first * size),
                      t.data.begin() + static_cast<ptrdiff_t>((first + count) * size));
    }
    const auto plan = checkpoint::plan_load(from.content, wanted);
    check_ok(plan);
    std::vector<std::byte> got(expected.size());
    const auto report = checkpoint::read_pieces(files, from, *plan, got);
    check_ok(report);
    BOOST_TEST(report->bytes == expected.size());
    if (readers == 1) BOOST_TEST(report->verified_bytes == expected.size());
    BOOST_TEST(same_bytes(got, expected));
  }
}

/// The checkpoint that `latest` names is whole and holds exactly `tensors`.
inline void check_newest(checkpoint::file_system& files, const std::filesystem::path& root, uint64_t step,
                         const std::vector<sample_tensor>& tensors) {
  const auto found = checkpoint::open_checkpoint(files, root);
  check_ok(found);
  BOOST_TEST(found->content.run.step == step);
  const auto report = checkpoint::verify_checkpoint(files, found->folder);
  check_ok(report);
  BOOST_TEST(report->damages == 0U);
  check_loads(files, *found, tensors, 1);
}

}  // namespace troupe::tests
