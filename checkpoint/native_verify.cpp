// Every piece against its digest; every tensor against its counterpart.
#include "checkpoint/native_verify.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <tuple>

#include "checkpoint/native_read.hpp"
#include "checkpoint/native_shard.hpp"
#include "core/math.hpp"
#include "core/tensor_view.hpp"

namespace troupe::checkpoint {
namespace {

using core::fail;
namespace fs = std::filesystem;

core::result<digest128> digest_in(const input_file& file, const fs::path& path, uint64_t offset, uint64_t bytes,
                                  std::vector<std::byte>& block) {
  digest_stream digest;
  for (uint64_t done = 0; done < bytes;) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(bytes - done, read_block_bytes));
    if (block.size() < n) block.resize(n);
    const auto part = std::span(block).first(n);
    if (auto ok = read_exactly(file, path, offset + done, part); !ok) return fail(ok.error());
    digest.add(part);
    done += n;
  }
  return digest.value();
}

/// Zeros from the end of a piece to the next possible begin.
core::result<void> check_padding(const input_file& file, const fs::path& path, uint64_t end) {
  std::array<std::byte, piece_alignment_bytes> bytes{};
  const auto padding = std::span(bytes).first(static_cast<size_t>(core::round_up(end, piece_alignment_bytes) - end));
  if (auto ok = read_exactly(file, path, end, padding); !ok) return ok;
  if (std::all_of(padding.begin(), padding.end(), [](std::byte b) { return b == std::byte{0}; })) return {};
  return fail(core::error_kind::bad_input,
              fmt::format("'{}': the padding of {} bytes at byte {} is not zeros", path.string(), padding.size(), end));
}

/// The first element that differs, or nothing.
core::result<std::optional<uint64_t>> first_difference(file_system& files, const checkpoint_folder& a,
                                                       const checkpoint_folder& b, const tensor_entry& t) {
  const uint64_t element_bytes = core::size_of(t.type), elements = core::numel_of(t.shape);
  const uint64_t step = read_block_bytes / element_bytes;
  std::vector<std::byte> one, two;
  for (uint64_t first = 0; first < elements; first += step) {
    const uint64_t count = std::min(step, elements - first);
    const wanted_slice wanted{t.name, t.kind, t.moment, t.type, t.shape, first, count, 0};
    for (const auto& [from, into] : {std::pair(&a, &one), std::pair(&b, &two)}) {
      into->resize(static_cast<size_t>(count * element_bytes));
      const auto plan = plan_load(from->content, std::span(&wanted, 1));
      if (!plan) return fail(plan.error());
      if (auto ok = read_pieces(files, *from, *plan, *into, {.verify = false}); !ok) return fail(ok.error());
    }
    const auto at = std::mismatch(one.begin(), one.end(), two.begin()).first;
    if (at != one.end()) return first + static_cast<uint64_t>(at - one.begin()) / element_bytes;
  }
  return std::nullopt;
}

bool same_cut_and_digests(const tensor_entry& a, const tensor_entry& b) {
  return std::equal(
      a.pieces.begin(), a.pieces.end(), b.pieces.begin(), b.pieces.end(),
      [](const piece& p, const piece& q) { return p.first == q.first && p.count == q.count && p.digest == q.digest; });
}

}  // namespace

core::result<verify_report> verify_checkpoint(file_system& files, const fs::path& folder) {
  const auto known = read_manifest(files, folder);
  if (!known) return fail(known.error());
  const manifest& m = known->content;
  verify_report out;
  const auto note = [&](damage d) {
    if (out.damages++ < max_listed_damages) out.listed.push_back(std::move(d));
  };
  struct place {
    uint32_t file;
    uint64_t offset_bytes;
    const piece* part;
    const tensor_entry* tensor;
  };
  std::vector<place> places;
  for (const auto& t : m.tensors)
    for (const auto& p : t.pieces) places.push_back({p.file, p.offset_bytes, &p, &t});
  std::sort(places.begin(), places.end(), [](const place& a, const place& b) {
    return std::tie(a.file, a.offset_bytes) < std::tie(b.file, b.offset_bytes);
  });
  out.tensors = m.tensors.size();
  std::vector<std::byte> block;
  auto at = places.begin();
  for (uint32_t number = 0; number < m.files.size(); ++number) {
    const auto& name = m.files[number].name;
    const auto path = folder / name;
    auto file = files.open(path);
    if (!file) note({name, "", 0, file.error().text});
    if (file)
      if (auto ok = check_shard(**file, path, m.files[number], m.save_id); !ok) note({name, "", 0, ok.error().text});
    for (; at != places.end() && at->file == number; ++at) {
      if (!file) continue;
      const uint64_t bytes = at->part->count * core::size_of(at->tensor->type);
      const auto digest = digest_in(**file, path, at->offset_bytes, bytes, block);
      ++out.pieces;
      out.bytes += bytes;
      if (digest && *digest == at->part->digest) {
        const uint64_t end = at->offset_bytes + bytes;
        if (auto ok = check_padding(**file, path, end); !ok) note({name, shown(*at->tensor), end, ok.error().text});
        continue;
      }
      const auto tensor = shown(*at->tensor);
      note({name, tensor, at->offset_bytes,
            digest
                ? fmt::format("'{}': the {} bytes at byte {}, elements {} to {} of tensor {}, do not have their digest",
                              path.string(), bytes, at->offset_bytes, at->part->first,
                              at->part->first + at->part->count, tensor)
                : digest.error().in(fmt::format("tensor {}", tensor)).text});
    }
  }
  return out;
}

core::result<std::vector<tensor_difference>> diff_checkpoints(file_system& files, const checkpoint_folder& first,
                                                              const checkpoint_folder& second) {
  std::vector<tensor_difference> out;
  const auto key = [](const tensor_entry& t) { return std::tie(t.name, t.kind, t.moment); };
  auto a = first.content.tensors.begin(), b = second.content.tensors.begin();
  const auto a_end = first.content.tensors.end(), b_end = second.content.tensors.end();
  while (a != a_end || b != b_end) {
    if (b == b_end || (a != a_end && key(*a) < key(*b))) {
      out.push_back({shown(*a), difference_kind::only_in_first, 0, fmt::format("{} is only in the first", shown(*a))});
      ++a;
    } else if (a == a_end || key(*b) < key(*a)) {
      out.push_back(
          {shown(*b), difference_kind::only_in_second, 0, fmt::format("{} is only in the second", shown(*b))});
      ++b;
    } else {
      const auto name = shown(*a);
      if (a->type != b->type) {
        out.push_back({name, difference_kind::type, 0,
                       fmt::format("{} is {} in the first, {} in the second", name, core::name_of(a->type),
                                   core::name_of(b->type))});
      } else if (a->shape != b->shape) {
        out.push_back({name, difference_kind::shape, 0,
                       fmt::format("{} is {} in the first, {} in the second", name, a->shape, b->shape)});
      } else if (!same_cut_and_digests(*a, *b)) {
        const auto element = first_difference(files, first, second, *a);
        if (!element) return fail(element.error());
        if (*element)
          out.push_back({name, difference_kind::content, **element,
                         fmt::format("{} differs from element {} on", name, **element)});
      }
      ++a, ++b;
    }
  }
  return out;
}

}  // namespace troupe::checkpoint
