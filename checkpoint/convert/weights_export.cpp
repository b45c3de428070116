#include "checkpoint/convert/weights_export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <system_error>

#include "core/number.hpp"
#include "core/tensor_view.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/torch/archive_writer.hpp"
#include "storage/files/parallel_output.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;
using weights = std::vector<exported_weight>;

uint64_t bytes_of(const exported_weight& w) { return core::numel_of(w.from->shape) * core::size_of(w.type); }

/// Returns the tensor that is written as a name's weight; null if the name has only moments.
const formats::tensor_entry* weight_of(const formats::tensor_source& from, const std::string& name) {
  for (const auto kind : {formats::tensor_kind::master, formats::tensor_kind::frozen, formats::tensor_kind::buffer,
                          formats::tensor_kind::weight})
    if (const auto* t = formats::find_tensor(from, name, kind)) return t;
  return nullptr;
}

/// One file of the output: its weights and its path.
struct output_shard {
  fs::path path;
  std::vector<const exported_weight*> holds;
};

/// The assignment of the written weights to files, and the folder of these files.
struct output_layout {
  fs::path folder;              ///< folder that contains the files
  bool is_folder = true;        ///< the caller named a folder, which may hold an older export; else one file
  bool is_torch = false;        ///< the one file is one of torch.save, else all files are of safetensors
  formats::folder_files files;  ///< names of the folder's files; empty for one file
  std::vector<output_shard> shards;
  uint64_t tensor_bytes = 0;
};

/// Reports the written bytes to the caller. Any thread may call it, but only one at a time.
class progress_teller {
 public:
  progress_teller(const storage::progress_function& tell, uint64_t total) : tell_(tell), total_(total) {}
  bool add(uint64_t bytes) {
    done_ = std::min(total_, done_ + bytes);
    return !tell_ || tell_(done_, total_);
  }

 private:
  const storage::progress_function& tell_;
  uint64_t done_ = 0, total_;
};

/// The bytes of one safetensors file, readable from any offset.
class safetensors_content {
 public:
  /// Orders the weights by descending element size, then by name, so that each tensor is aligned.
  static core::result<safetensors_content> of(const formats::tensor_source& from, const output_shard& shard,
                                              const formats::string_map& about) {
    safetensors_content out;
    out.holds_ = shard.holds;
    std::ranges::sort(out.holds_, [](const auto* a, const auto* b) {
      const size_t x = core::size_of(a->type), y = core::size_of(b->type);
      return x != y ? x > y : a->name < b->name;
    });
    uint64_t at = 0;
    std::vector<formats::safetensors_entry> entries;
    for (const auto* w : out.holds_) {
      if (w->name == "__metadata__")
        return fail(error_kind::bad_input, "a tensor is named '__metadata__', a name that safetensors reserves");
      out.begins_.push_back(at);
      at += bytes_of(*w);
      entries.push_back({w->name, w->type, w->from->shape, out.begins_.back(), at});
    }
    auto metadata = formats::pytorch_metadata;
    metadata.insert(about.begin(), about.end());
    auto header = formats::format_header(entries, metadata);
    if (!header) return fail(header.error().in(fmt::format("cannot write '{}'", shard.path.string())));
    out.header_ = std::move(*header);
    out.bytes_ = out.header_.size() + at;
    for (auto& reader : out.readers_) reader = std::make_unique<formats::source_reader>(from);
    return out;
  }

  [[nodiscard]] uint64_t bytes() const { return bytes_; }

  core::result<void> fill(size_t worker, uint64_t offset, std::span<std::byte> out) {
    if (offset < header_.size()) {
      const size_t n = std::min(out.size(), header_.size() - static_cast<size_t>(offset));
      std::ranges::copy(std::as_bytes(std::span(header_)).subspan(static_cast<size_t>(offset), n), out.begin());
      out = out.subspan(n);
      offset += n;
    }
    uint64_t at = offset - header_.size();  // offset of the requested bytes after the file's header
    auto i = static_cast<size_t>(std::ranges::upper_bound(begins_, at) - begins_.begin());
    for (i = i == 0 ? 0 : i - 1; !out.empty() && i < holds_.size(); ++i) {
      const auto& w = *holds_[i];
      const uint64_t width = core::size_of(w.type), begin = at - begins_[i];
      const auto n = static_cast<size_t>(std::min<uint64_t>(out.size(), bytes_of(w) - begin));
      if (n == 0) continue;
      if (auto ok = readers_[worker]->read_as(w.type, *w.from, begin / width, n / width, out.first(n)); !ok)
        // A numeric error names the tensor already.
        return ok.error().kind == error_kind::numeric
                   ? ok
                   : fail(ok.error().in(fmt::format("tensor '{}'", formats::shown(w.name))));
      out = out.subspan(n);
      at += n;
    }
    return {};
  }

 private:
  std::vector<const exported_weight*> holds_;
  std::vector<uint64_t> begins_;  ///< offset after the header of each weight in holds_
  std::string header_;
  uint64_t bytes_ = 0;
  std::array<std::unique_ptr<formats::source_reader>, storage::output_workers> readers_;
};

core::result<void> write_torch_file(const formats::tensor_source& from, const output_shard& shard,
                                    const formats::string_map& about, progress_teller& progress) {
  formats::source_reader reader(from);
  std::vector<formats::tensor_to_write> tensors;
  std::map<const formats::tensor_entry*, std::string> owner;
  std::map<std::string, std::string> shared;
  for (const auto* w : shard.holds) {
    if (const auto at = owner.find(w->from); at != owner.end()) {
      shared.emplace(w->name, at->second);
      continue;
    }
    owner.emplace(w->from, w->name);
    auto bytes = [&reader, &progress, w](uint64_t at, std::span<std::byte> out) -> core::result<void> {
      const uint64_t width = core::size_of(w->type);
      TROUPE_TRY(reader.read_as(w->type, *w->from, at / width, out.size() / width, out));
      if (!progress.add(out.size())) return fail(error_kind::stopped, "the export was stopped");
      return {};
    };
    tensors.push_back({w->name, w->type, w->from->shape, {}, std::move(bytes)});
  }
  return formats::write_torch_archive(shard.path, tensors, shared, {}, about);
}

bool has_torch_ending(const fs::path& out) {
  const auto ending = out.extension();
  return ending == ".pt" || ending == ".pth" || ending == ".bin";
}

/// Divides the weights over files by size, or assigns all to one file.
core::result<output_layout> layout_of(const weights& all, const weights_export_options& options) {
  output_layout out;
  out.is_folder = options.is_folder || !names_weights_file(options.out);
  out.is_torch = keeps_bytes_once(options);
  out.folder = out.is_folder ? options.out : options.out.parent_path();
  if (out.folder.empty()) out.folder = ".";
  for (const auto& w : all)
    if (!out.is_torch || !w.is_tied) out.tensor_bytes += bytes_of(w);
  if (!out.is_folder) {
    auto& file = out.shards.emplace_back(output_shard{options.out, {}});
    for (const auto& w : all) file.holds.push_back(&w);
    return out;
  }
  std::vector<formats::sized_name> sizes;
  for (const auto& w : all) sizes.push_back({w.name, bytes_of(w)});
  TROUPE_ASSIGN(out.files, formats::divide_into_files(sizes, std::max<uint64_t>(options.max_shard_bytes, 1)));
  for (size_t s = 0; s < out.files.names.size(); ++s) {
    auto& shard = out.shards.emplace_back(output_shard{out.folder / out.files.names[s], {}});
    for (const size_t i : out.files.shards[s]) shard.holds.push_back(&all[i]);
  }
  return out;
}

core::result<void> check_room(const fs::path& folder, uint64_t needed) {
  std::error_code ec;
  const auto space = fs::space(folder, ec);
  if (ec || space.available >= needed) return {};  // if the free space is unknown, writing reports a full disk
  return fail(error_kind::no_space,
              fmt::format("'{}' has {} bytes free, the export needs {}", folder.string(), space.available, needed));
}

/// Writes the shards. Returns safetensors files under their working names; a file of torch.save has its final name
/// already.
core::result<std::vector<storage::atomic_file>> write_shards(const formats::tensor_source& from,
                                                             const output_layout& layout,
                                                             const formats::string_map& about,
                                                             progress_teller& progress) {
  std::vector<storage::atomic_file> written;
  for (const auto& shard : layout.shards) {
    if (layout.is_torch) {
      TROUPE_TRY(write_torch_file(from, shard, about, progress));
      continue;
    }
    TROUPE_ASSIGN(auto content, safetensors_content::of(from, shard, about));
    TROUPE_ASSIGN(auto file, storage::write_in_blocks(
                                 shard.path, content.bytes(),
                                 [&](size_t worker, uint64_t at, std::span<std::byte> out) {
                                   return content.fill(worker, at, out);
                                 },
                                 [&](uint64_t bytes) { return progress.add(bytes); }));
    written.push_back(std::move(file));
  }
  return written;
}

core::result<void> write_all(const formats::tensor_source& from, const output_layout& layout,
                             const formats::string_map& about, progress_teller& progress) {
  TROUPE_TRY(check_room(layout.folder, layout.tensor_bytes));
  TROUPE_ASSIGN(auto written, write_shards(from, layout, about, progress));
  if (layout.is_folder) return formats::commit_weights(layout.folder, std::move(written), layout.files);
  for (auto& file : written) TROUPE_TRY(file.commit());
  return {};
}

}  // namespace

bool names_weights_file(const fs::path& out) { return out.extension() == ".safetensors" || has_torch_ending(out); }

bool keeps_bytes_once(const weights_export_options& options) {
  return !options.is_folder && has_torch_ending(options.out);
}

core::result<weights> weights_of(const formats::tensor_source& from, const weights_export_options& options) {
  weights out;
  std::set<std::string_view> seen;
  std::map<const formats::tensor_entry*, int> of;
  core::result<void> ok;
  const auto add = [&](const std::string& name, const formats::tensor_entry* t) {
    if (t == nullptr || !ok || (options.exclude_frozen && t->kind == formats::tensor_kind::frozen)) return;
    if (!seen.insert(name).second) return;
    auto written = options.rename ? options.rename(name) : std::optional(name);
    if (!written) return;
    const bool keeps = t->kind == formats::tensor_kind::frozen || !formats::is_floating(t->type);
    out.push_back({std::move(*written), t, keeps ? t->type : options.type, of[t]++ > 0});
  };
  for (const auto kind : {formats::tensor_kind::buffer, formats::tensor_kind::frozen})
    for (const auto& t : from.tensors)
      if (t.kind == kind && weight_of(from, t.name) == &t) add(t.name, &t);
  for (const auto& name : from.parameter_order) add(name, weight_of(from, name));
  for (const auto& t : from.tensors) add(t.name, weight_of(from, t.name));
  for (const auto& t : from.tied) add(t.name, weight_of(from, t.of));
  std::set<std::string_view> names;
  for (const auto& w : out)
    if (!names.insert(w.name).second)
      return fail(error_kind::bad_input, fmt::format("two tensors would be written as '{}'", formats::shown(w.name)));
  if (out.empty())
    return fail(error_kind::bad_input, fmt::format("'{}' holds no weights to write", formats::shown_place(from)));
  return out;
}

core::result<weights_export_report> export_weights(const formats::tensor_source& from,
                                                   const weights_export_options& options) {
  TROUPE_ASSIGN(const auto all, weights_of(from, options));
  return export_weights(from, all, options);
}

core::result<weights_export_report> export_weights(const formats::tensor_source& from, const weights& all,
                                                   const weights_export_options& options) {
  TROUPE_ASSIGN(const auto layout, layout_of(all, options));
  bool made = false;
  if (layout.is_folder) {
    TROUPE_ASSIGN(made, formats::make_weights_folder(layout.folder));
  }
  progress_teller progress(options.progress, layout.tensor_bytes);
  if (auto ok = write_all(from, layout, layout.is_folder ? formats::string_map() : options.about, progress); !ok) {
    std::error_code ec;
    if (made) fs::remove(layout.folder, ec);  // removes the folder only if it is empty
    return fail(ok.error());
  }
  weights_export_report report{{}, all.size(), layout.tensor_bytes};
  for (const auto& shard : layout.shards) report.files.push_back(shard.path);
  if (layout.shards.size() > 1) report.files.push_back(layout.folder / formats::index_file_name);
  return report;
}

core::result<uint64_t> shard_bytes_from(std::string_view text) {
  uint64_t unit = 0;
  std::string_view given = text;
  const auto number = core::take_number<uint64_t>(given);
  constexpr std::array<std::pair<std::string_view, uint64_t>, 6> units{
      {{"", 1}, {"B", 1}, {"KB", 1'000}, {"MB", 1'000'000}, {"GB", 1'000'000'000}, {"TB", 1'000'000'000'000}}};
  for (const auto& [name, bytes] : units)
    if (given.size() == name.size() && std::ranges::equal(given, name, [](char a, char b) {
          return (a >= 'a' && a <= 'z' ? static_cast<char>(a - 'a' + 'A') : a) == b;
        }))
      unit = bytes;
  if (!number || unit == 0 || *number == 0 || *number > UINT64_MAX / unit)
    return fail(error_kind::bad_input, fmt::format("wanted a size such as 5GB or 200MB, or a number of bytes, got '{}'",
                                                   formats::shown(text)));
  return *number * unit;
}

}  // namespace troupe::checkpoint
