#include "checkpoint/convert/distributed_export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "checkpoint/convert/weights_export.hpp"
#include "core/tensor_view.hpp"
#include "formats/deepspeed/write/state.hpp"
#include "formats/torch/distributed_metadata.hpp"
#include "formats/torch/pickle_writer.hpp"
#include "formats/weights/torch_file.hpp"
#include "storage/files/atomic_file.hpp"
#include "storage/files/streamed_file.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* metadata_module = "torch.distributed.checkpoint.metadata";
constexpr const char* metadata_version = "1.0.0";
/// Bytes added for each written item to the estimate of the needed disk space: for the torch.save archive around the
/// item's tensor, and for the item's description in `.metadata`.
constexpr uint64_t item_reserve_bytes = 4096;

using core::refused;

/// The contents of one archive: rows of a tensor, or a value.
struct planned_item {
  uint32_t rank = 0;
  const formats::tensor_entry* tensor = nullptr;
  core::dtype type = core::dtype::f32;
  std::vector<int64_t> sizes = {};
  uint64_t first = 0;
  formats::torch_value value = {};  ///< stored value, if `tensor` is null and `one` is not set
  std::optional<float> one = {};    ///< value of an fp32 tensor of one element that is stored instead of `tensor`
  uint64_t begin = 0, bytes = 0;
};

struct planned_chunk {
  std::vector<int64_t> offsets;
  size_t item = 0;
};

struct planned_entry {  ///< one named tensor or object that `.metadata` will list
  std::string name;
  std::vector<formats::torch_value> keys;
  std::optional<core::dtype> type;  ///< type of a tensor; nothing for an object
  std::vector<int64_t> shape;
  std::vector<planned_chunk> chunks;
};

formats::torch_value class_of(const char* name) { return formats::torch_value::object(metadata_module, name); }

formats::torch_value properties_of(core::dtype type) {
  auto out = class_of("TensorProperties");
  const std::string name = type == core::dtype::f32    ? "float32"
                           : type == core::dtype::f16  ? "float16"
                           : type == core::dtype::bf16 ? "bfloat16"
                           : type == core::dtype::f64  ? "float64"
                           : type == core::dtype::i64  ? "int64"
                           : type == core::dtype::i32  ? "int32"
                           : type == core::dtype::i16  ? "int16"
                           : type == core::dtype::i8   ? "int8"
                           : type == core::dtype::u8   ? "uint8"
                                                       : "bool";
  return out.set_state(formats::torch_value::tuple(
      {formats::torch_value::global("torch", name),
       formats::torch_value::call("torch.serialization", "_get_layout", {"torch.strided"}), false,
       formats::torch_value::call(metadata_module, "_MEM_FORMAT_ENCODING", {0}), false}));
}

class distributed_writer {
 public:
  distributed_writer(const formats::tensor_source& from, const distributed_write_options& options)
      : from_(from), options_(options) {}

  core::result<void> plan() {
    if (options_.ranks == 0 || options_.ranks > formats::max_deepspeed_ranks)
      return refused(
          fmt::format("a folder for {} ranks: wanted 1 to {}", options_.ranks, formats::max_deepspeed_ranks));
    weights_export_options how;
    how.rename = [&](const std::string& name) { return std::optional(written(name)); };
    TROUPE_ASSIGN(const auto weights, weights_of(from_, how));
    // [tensor]: first entry of the folder that stores the tensor's bytes
    std::map<const formats::tensor_entry*, size_t> first;
    std::map<std::string, size_t> of_name;
    for (const auto& w : weights) {
      const auto [at, fresh] = first.try_emplace(w.from, entries_.size());
      of_name.emplace(w.name, entries_.size());
      if (fresh)
        add_tensor("model." + w.name, {"model", w.name}, *w.from, w.type);
      else
        add_again("model." + w.name, {"model", w.name}, at->second);
    }
    for (const auto& [alias, owner] : options_.shared) {
      const auto at = of_name.find(owner);
      if (at == of_name.end())
        return refused(fmt::format("'{}' is tied to '{}', which is not a parameter", formats::shown(alias),
                                   formats::shown(owner)));
      if (!of_name.contains(alias)) add_again("model." + alias, {"model", alias}, at->second);
    }
    TROUPE_TRY(plan_optimizer());
    if (from_.run.schedule_position)
      add_object("lr_scheduler.last_epoch", {"lr_scheduler", "last_epoch"}, *from_.run.schedule_position);
    return {};
  }

  [[nodiscard]] uint64_t tensor_bytes() const {
    uint64_t out = 0;
    for (const auto& i : items_)
      if (i.tensor != nullptr) out += core::numel_of(i.sizes) * core::size_of(i.type);
    return out;
  }
  [[nodiscard]] uint64_t bytes() const { return tensor_bytes() + items_.size() * item_reserve_bytes; }

  core::result<distributed_report> write(const fs::path& folder) {
    formats::source_reader reader(from_);
    const uint64_t total = tensor_bytes();
    uint64_t done = 0;
    const auto written = [&](uint64_t bytes) -> core::result<void> {
      done += bytes;
      if (options_.progress && !options_.progress(std::min(done, total), total))
        return fail(error_kind::stopped, "stopped while writing");
      return {};
    };
    for (uint32_t rank = 0; rank < options_.ranks; ++rank) TROUPE_TRY(write_file(folder, rank, reader, written));
    formats::pickle_writer out;
    metadata().write(out, [](formats::pickle_writer&, const formats::torch_view&) {});
    TROUPE_TRY(storage::write_file_atomically(folder / formats::distributed_metadata_name, out.finish()));
    size_t tensors = 0;
    for (const auto& e : entries_) tensors += e.type.has_value() ? 1 : 0;
    return distributed_report{total, tensors, options_.ranks + size_t{1}};
  }

 private:
  [[nodiscard]] std::string written(const std::string& name) const {
    return options_.name ? options_.name(name) : name;
  }
  static std::string file_name(uint32_t rank) { return fmt::format("__{}_0{}", rank, formats::distributed_extension); }

  /// Adds a tensor, whose rows are cut as torch.chunk() cuts them.
  void add_tensor(std::string name, std::vector<formats::torch_value> keys, const formats::tensor_entry& t,
                  core::dtype type) {
    planned_entry entry{std::move(name), std::move(keys), type, t.shape, {}};
    const uint64_t numel = core::numel_of(t.shape);
    const uint64_t rows = t.shape.empty() || numel == 0 ? 1 : static_cast<uint64_t>(t.shape[0]);
    const uint64_t most = (rows + options_.ranks - 1) / options_.ranks;
    uint32_t rank = 0;
    for (uint64_t row = 0; row < rows; row += most, ++rank) {
      planned_item item{.rank = rank, .tensor = &t, .type = type, .sizes = t.shape};
      item.first = row * (numel / rows);
      planned_chunk chunk{std::vector<int64_t>(t.shape.size(), 0), items_.size()};
      if (!t.shape.empty() && numel > 0) {
        item.sizes[0] = static_cast<int64_t>(std::min(most, rows - row));
        chunk.offsets[0] = static_cast<int64_t>(row);
      }
      items_.push_back(std::move(item));
      entry.chunks.push_back(std::move(chunk));
    }
    entries_.push_back(std::move(entry));
  }

  /// Adds an entry that shares the bytes of entry number `of`.
  void add_again(std::string name, std::vector<formats::torch_value> keys, size_t of) {
    auto entry = entries_[of];
    entry.name = std::move(name);
    entry.keys = std::move(keys);
    entries_.push_back(std::move(entry));
  }

  void add_object(std::string name, std::vector<formats::torch_value> keys, formats::torch_value value) {
    entries_.push_back({std::move(name), std::move(keys), {}, {}, {{{}, items_.size()}}});
    items_.push_back({.value = std::move(value)});
  }

  core::result<void> plan_optimizer() {
    // names of the parameters that have moments, as in the source
    std::vector<std::string> parameters;
    std::optional<size_t> step;
    const auto updates = from_.run.applied_updates ? from_.run.applied_updates : from_.run.steps;
    if (options_.groups.empty()) return {};
    for (const auto& t : from_.tensors) {
      if (t.kind != formats::tensor_kind::moment) continue;
      const auto name = written(t.name);
      const auto key = fmt::format("optim.state.{}.", name);
      if (parameters.empty() || parameters.back() != t.name) {
        parameters.push_back(t.name);
        std::vector<formats::torch_value> keys{"optim", "state", name, "step"};
        if (step) {
          add_again(key + "step", std::move(keys), *step);
        } else if (updates) {  // an optimizer without a count of updates, such as SGD, writes no step
          step = entries_.size();
          entries_.push_back({key + "step", std::move(keys), core::dtype::f32, {}, {{{}, items_.size()}}});
          planned_item one;
          one.one = static_cast<float>(*updates);
          items_.push_back(std::move(one));
        }
      }
      add_tensor(key + t.moment, {"optim", "state", name, t.moment}, t, core::dtype::f32);
    }
    return parameters.empty() ? core::result<void>() : plan_groups(parameters);
  }

  core::result<void> plan_groups(const std::vector<std::string>& parameters) {
    std::map<std::string_view, size_t> place;
    std::optional<size_t> rest;
    for (size_t g = 0; g < options_.groups.size(); ++g) {
      if (options_.groups[g].parameters.empty()) rest = g;
      for (const auto& name : options_.groups[g].parameters)
        if (!place.emplace(name, g).second)
          return refused(fmt::format("'{}' appears twice in the parameter groups", formats::shown(name)));
    }
    std::vector<formats::torch_value> members(options_.groups.size(), formats::torch_value::list());
    for (const auto& name : parameters) {
      const auto at = place.find(name);
      if (at == place.end() && !rest)
        return refused(fmt::format("'{}' is in no parameter group", formats::shown(name)));
      members[at == place.end() ? *rest : at->second].push(written(name));
    }
    const formats::deepspeed_write_options as_deepspeed{.groups = options_.groups};
    const formats::deepspeed_model none;
    TROUPE_ASSIGN(const auto parts, formats::deepspeed_parts_of(from_, as_deepspeed, none));
    for (size_t g = 0; g < members.size(); ++g) {
      const auto number = static_cast<int64_t>(g);
      const auto put = [&](const std::string& key, formats::torch_value value) {
        add_object(fmt::format("optim.param_groups.{}.{}", g, key), {"optim", "param_groups", number, key},
                   std::move(value));
      };
      const auto keys = parts.groups[g].items();
      for (size_t i = 0; i + 1 < keys.size(); i += 2) put(keys[i].text(), keys[i + 1]);
      put("params", members[g]);
    }
    return {};
  }

  core::result<void> write_file(const fs::path& folder, uint32_t rank, formats::source_reader& reader,
                                const formats::block_written& written) {
    TROUPE_ASSIGN(auto file, storage::streamed_file::create(folder / file_name(rank)));
    uint64_t at = 0;
    for (auto& item : items_) {
      if (item.rank != rank) continue;
      formats::torch_file archive(reader);
      if (item.one)
        archive.root = archive.scalar(*item.one);
      else if (item.tensor == nullptr)
        archive.root = item.value;
      else if (const uint64_t count = core::numel_of(item.sizes); count > 0)
        archive.root = archive.tensor(item.type, item.sizes, {{item.tensor, item.first, count}});
      else
        archive.root = archive.whole(item.type, *item.tensor);
      TROUPE_ASSIGN(const auto bytes, formats::append_torch_archive(file, archive.root, archive.storages(), written));
      item.begin = at;
      item.bytes = bytes;
      at += bytes;
    }
    return file.commit();
  }

  [[nodiscard]] formats::torch_value metadata() const {
    auto tensors = formats::torch_value::dict(), paths = formats::torch_value::dict(),
         places = formats::torch_value::dict();
    for (const auto& e : entries_) {
      auto chunks = formats::torch_value::list();
      for (size_t i = 0; i < e.chunks.size(); ++i) {
        const auto& item = items_[e.chunks[i].item];
        auto index = class_of("MetadataIndex").set("fqn", e.name);
        if (e.type) {
          index.set("offset", formats::torch_value::size(e.chunks[i].offsets)).set("index", static_cast<int64_t>(i));
          chunks.push(class_of("ChunkStorageMetadata")
                          .set("offsets", formats::torch_value::size(e.chunks[i].offsets))
                          .set("sizes", formats::torch_value::size(item.sizes)));
        }
        places.set(std::move(index),
                   formats::torch_value::object("torch.distributed.checkpoint.filesystem", "_StorageInfo")
                       .set("relative_path", file_name(item.rank))
                       .set("offset", static_cast<int64_t>(item.begin))
                       .set("length", static_cast<int64_t>(item.bytes)));
      }
      paths.set(e.name, formats::torch_value::tuple(e.keys));
      tensors.set(e.name, !e.type ? class_of("BytesStorageMetadata")
                                  : class_of("TensorStorageMetadata")
                                        .set("properties", properties_of(*e.type))
                                        .set("size", formats::torch_value::size(e.shape))
                                        .set("chunks", std::move(chunks)));
    }
    return class_of("Metadata")
        .set("state_dict_metadata", std::move(tensors))
        .set("planner_data", std::move(paths))
        .set("storage_data", std::move(places))
        .set("storage_meta", {})
        .set("version", metadata_version);
  }

  const formats::tensor_source& from_;
  const distributed_write_options& options_;
  std::vector<planned_item> items_;
  std::vector<planned_entry> entries_;
};

}  // namespace

core::result<uint64_t> distributed_bytes(const formats::tensor_source& from, const distributed_write_options& options) {
  distributed_writer writer(from, options);
  TROUPE_TRY(writer.plan());
  return writer.bytes();
}

core::result<distributed_report> write_distributed_folder(const formats::tensor_source& from, const fs::path& folder,
                                                          const distributed_write_options& options) {
  distributed_writer writer(from, options);
  TROUPE_TRY(writer.plan());
  return writer.write(folder);
}

}  // namespace troupe::checkpoint
