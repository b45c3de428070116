// Creates tensors with known bytes, divides them among writers and saves them in the native format; shared by the tests
// of that format.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <random>

#include "checkpoint/commit/commit.hpp"
#include "checkpoint/native/native_source.hpp"
#include "formats/source/scatter_read.hpp"
#include "storage/files/working_folder.hpp"
#include "tests/formats/tensors.hpp"

namespace troupe::tests {

struct sample_tensor {  ///< a tensor with all its bytes
  formats::tensor_entry entry;
  std::vector<std::byte> data;
};

/// Returns tensors of every kind and of odd sizes; their bytes depend on the seed.
inline std::vector<sample_tensor> sample_tensors(uint64_t seed) {
  using core::dtype;
  using formats::tensor_kind;
  std::vector<sample_tensor> out;
  const auto add = [&](std::string name, tensor_kind kind, std::string moment, dtype type, std::vector<int64_t> shape) {
    const auto bytes = formats::bytes_of(type, shape).value();
    formats::tensor_entry entry{std::move(name), kind, std::move(moment), type, std::move(shape), {}};
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

/// Returns the range (first, count) of elements that writer `w` of `writers` saves: blocks of 1,024 elements in order,
/// as runs divide them.
inline std::pair<uint64_t, uint64_t> share_of(uint64_t elements, uint32_t w, uint32_t writers) {
  const uint64_t blocks = core::div_up(elements, core::partition_grain);
  const uint64_t first = std::min(elements, blocks * w / writers * core::partition_grain);
  const uint64_t last = std::min(elements, blocks * (w + 1) / writers * core::partition_grain);
  return {first, last - first};
}

/// Writes pieces as runs do, each as a separate block. Only finish() waits for the writes.
class piece_writer {
 public:
  explicit piece_writer(checkpoint::shard_writer to) : to_(std::move(to)) {}

  struct written {
    uint64_t offset_bytes = 0;
    storage::digest128 digest;
  };
  core::result<written> append(std::span<const std::byte> bytes) {
    auto& room = memory_.emplace_back(core::div_up(bytes.size(), sizeof(page)));
    auto* const at = reinterpret_cast<std::byte*>(room.data());
    const written out{end_bytes_, checkpoint::stage_piece(bytes, at)};
    if (room.empty()) return out;
    const auto ticket = to_.start_block({at, room.size() * sizeof(page)});
    if (!ticket) return core::fail(ticket.error());
    end_bytes_ += room.size() * sizeof(page);
    return out;
  }
  core::result<formats::shard_file> finish() { return to_.finish(); }

 private:
  struct alignas(formats::piece_alignment_bytes) page {
    std::array<std::byte, formats::piece_alignment_bytes> bytes;
  };
  std::deque<std::vector<page>> memory_;  // blocks that are being written; they must outlive the file
  checkpoint::shard_writer to_;
  uint64_t end_bytes_ = formats::shard_header_bytes;
};

/// Saves `tensors` with `writers` files and returns the checkpoint's folder; `m` may contain the run's state and ties.
inline core::result<std::filesystem::path> save_sample(storage::file_system& files, const std::filesystem::path& root,
                                                       uint64_t step, const std::vector<sample_tensor>& tensors,
                                                       uint32_t writers, checkpoint::manifest m = {},
                                                       storage::digest128 id = storage::random_save_id(),
                                                       const checkpoint::commit_options& options = {}) {
  auto save = checkpoint::checkpoint_save::begin(files, root, step, 1, id, options);
  if (!save) return fail(save.error());
  for (const auto& t : tensors) m.tensors.push_back(t.entry);
  for (uint32_t w = 0; w < writers; ++w) {
    auto made = save->create_shard(w, formats::shard_header_bytes);
    if (!made) return fail(made.error());
    piece_writer shard(std::move(*made));
    for (size_t i = 0; i < tensors.size(); ++i) {
      const uint64_t element_bytes = core::size_of(tensors[i].entry.type);
      const auto [first, count] = share_of(tensors[i].data.size() / element_bytes, w, writers);
      if (count == 0) continue;
      const auto wrote = shard.append(std::span(tensors[i].data).subspan(first * element_bytes, count * element_bytes));
      if (!wrote) return fail(wrote.error());
      m.tensors[i].pieces.push_back({w, first, count, wrote->offset_bytes, wrote->digest});
    }
    auto done = shard.finish();
    if (!done) return fail(done.error());
    m.files.push_back(std::move(*done));
  }
  return save->commit(std::move(m));
}

/// Elements [first, first + count) of a tensor, and the offset in bytes, `at`, at which they are to be stored in
/// memory.
struct wanted_part {
  const formats::tensor_entry* tensor = nullptr;
  uint64_t first = 0, count = 0, at = 0;
};

/// Loads all parts in one call, which must read no byte twice, and stores them in `into` in the types of the tensors.
inline core::result<formats::read_report> load_parts(storage::file_system& files, const formats::tensor_source& from,
                                                     const std::vector<wanted_part>& wanted,
                                                     std::span<std::byte> into) {
  std::map<const formats::tensor_entry*, std::vector<formats::read_target>> targets;
  for (const auto& w : wanted) {
    BOOST_REQUIRE(w.tensor != nullptr);
    BOOST_REQUIRE(w.at + w.count * core::size_of(w.tensor->type) <= into.size());
    targets[w.tensor].push_back({w.first, w.count, w.tensor->type, into.data() + w.at});
  }
  std::vector<formats::scattered_tensor> tensors;
  for (const auto& [tensor, of] : targets) tensors.push_back({tensor, of});
  return formats::read_scattered(files, from, tensors);
}

/// Loads all of `tensors` with `readers` readers, one after another, and compares every byte.
inline void check_loads(storage::file_system& files, const checkpoint::checkpoint_folder& from,
                        const std::vector<sample_tensor>& tensors, uint32_t readers) {
  const auto source = checkpoint::source_of(from);
  for (uint32_t r = 0; r < readers; ++r) {
    BOOST_TEST_INFO_SCOPE("r " << r);
    std::vector<wanted_part> wanted;
    std::vector<std::byte> expected;
    for (const auto& t : tensors) {
      const auto& e = t.entry;
      const uint64_t size = core::size_of(e.type), n = t.data.size() / size;
      // The readers' ranges begin at other elements than the writers' shares.
      const uint64_t first = n * r / readers, count = n * (r + 1) / readers - first;
      wanted.push_back({formats::find_tensor(source, e.name, e.kind, e.moment), first, count, expected.size()});
      expected.insert(expected.end(), t.data.begin() + static_cast<ptrdiff_t>(first * size),
                      t.data.begin() + static_cast<ptrdiff_t>((first + count) * size));
    }
    std::vector<std::byte> got(expected.size());
    const auto report = check_ok(load_parts(files, source, wanted, got));
    BOOST_TEST(report->bytes == expected.size());
    if (readers == 1) BOOST_TEST(report->verified_bytes == expected.size());
    BOOST_TEST(same_bytes(got, expected));
  }
}

/// Checks that the checkpoint named by `latest` is complete and contains exactly `tensors`.
inline void check_newest(storage::file_system& files, const std::filesystem::path& root, uint64_t step,
                         const std::vector<sample_tensor>& tensors) {
  const auto found = check_ok(checkpoint::open_checkpoint(files, root));
  BOOST_TEST(found->content.run.step == step);
  const auto report = check_ok(checkpoint::verify_checkpoint(files, found->folder));
  BOOST_TEST(report->damages == 0U);
  check_loads(files, *found, tensors, 1);
}

}  // namespace troupe::tests
