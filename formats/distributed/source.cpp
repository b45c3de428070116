#include "formats/distributed/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "core/source_file.hpp"
#include "core/tensor_view.hpp"
#include "formats/distributed/chunks.hpp"
#include "formats/distributed/left_out.hpp"
#include "formats/distributed/megatron_common.hpp"
#include "formats/distributed/names.hpp"
#include "formats/distributed/safetensors_shards.hpp"
#include "formats/names/name_map.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/strided_view.hpp"
#include "formats/tensors/tensor_shares.hpp"
#include "formats/torch/archive.hpp"
#include "formats/torch/distributed_metadata.hpp"
#include "formats/trainer/update_counts.hpp"
#include "formats/weights/hugging_face.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;
using entry_map = distributed_entries;

using core::refused;

constexpr std::string_view format_name = "PyTorch distributed";
/// Folders that Accelerate writes with FSDP's sharded states: one for the model, one for the optimizer.
constexpr std::string_view accelerate_model_folder = "pytorch_model_fsdp_0",
                           accelerate_optimizer_folder = "optimizer_0";

/// True if `flat` is the shape in which Megatron stores the optimizer state of a tensor of shape `shape`: for each
/// dimension the number of ranks' parts along it, then the number of elements of one flattened part. Accepts only cuts
/// that keep the elements in row-major order: the first dimensions are cut into single rows, all others not at all.
bool is_flattened(const std::vector<int64_t>& flat, const std::vector<int64_t>& shape) {
  if (flat.size() != shape.size() + 1 || core::numel_of(flat) != core::numel_of(shape)) return false;
  size_t d = 0;
  while (d < shape.size() && flat[d] == shape[d]) ++d;
  for (; d < shape.size(); ++d)
    if (flat[d] != 1) return false;
  return true;
}

class distributed_reader {
 public:
  explicit distributed_reader(fs::path folder) { out_.folder = std::move(folder); }

  core::result<tensor_source> run() {
    std::error_code ec;
    entry_map entries;
    if (fs::exists(out_.folder / distributed_metadata_name, ec)) {
      TROUPE_TRY(list(out_.folder, entries));
    } else if (holds_safetensors_shards(out_.folder)) {
      is_plain_ = true;
      TROUPE_TRY(list(out_.folder, entries));
    } else {
      for (const auto name : {accelerate_model_folder, accelerate_optimizer_folder})
        if (name == accelerate_model_folder || fs::exists(out_.folder / name / distributed_metadata_name, ec))
          TROUPE_TRY(list(out_.folder / name, entries));
    }
    const optimizers_entries optimizers(entries);
    name_weights(entries, optimizers);
    for (const auto& [name, entry] : entries)
      if (auto ok = add(name, entry, optimizers.contains(name, entry)); !ok)
        return fail(ok.error().in(fmt::format("'{}': '{}'", folder(), shown(name))));
    if (!left_out_.keeps_states()) leave_out_states();
    for (auto& t : out_.tensors)
      if (t.kind == tensor_kind::weight && has_moments_.contains(t.name) && !has_masters_.contains(t.name))
        t.kind = tensor_kind::master;
    tie_names();
    out_.format = format_name;
    left_out_.say(out_.remarks);
    out_.unread = left_out_.unread();
    TROUPE_ASSIGN(auto model, read_model_config(out_.folder));
    out_.run.model = std::move(model);
    if (fs::exists(out_.folder / megatron_common_name, ec)) {
      TROUPE_ASSIGN(auto run, read_megatron_common(out_.folder / megatron_common_name));
      run.model = std::move(out_.run.model);
      out_.run = std::move(run);
      out_.format = "Megatron-Core torch_dist" + out_.format.substr(format_name.size());
    } else if (const auto steps = updates(); steps && !has_moments_.empty()) {
      out_.run.steps = out_.run.applied_updates = *steps;
      if (!out_.run.schedule_position) out_.run.schedule_position = static_cast<int64_t>(*steps);
    } else {
      out_.run.schedule_position.reset();
    }
    TROUPE_TRY(complete(out_));
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::string folder() const { return out_.folder.string(); }

  /// Adds the entries of one folder to `entries`, and appends the folder's files to the source's list of files.
  core::result<void> list(const fs::path& folder, entry_map& entries) {
    TROUPE_ASSIGN(auto found, is_plain_ ? read_safetensors_shards(folder) : read_distributed_metadata(folder));
    const auto first = static_cast<uint32_t>(out_.files.size());
    for (const auto& name : found.files) {
      std::error_code ec;
      const uint64_t bytes = fs::file_size(folder / name, ec);
      if (ec)
        return fail(error_kind::io, fmt::format("cannot look at '{}': {}", (folder / name).string(), ec.message()));
      out_.files.push_back({folder / name, bytes});
    }
    for (auto& [name, entry] : found.entries) {
      for (auto& item : entry.items) item.file += first;
      if (!entries.emplace(name, std::move(entry)).second)
        return refused(fmt::format("'{}': '{}' is also in another folder", folder.string(), shown(name)));
    }
    return {};
  }

  /// Makes weights that use the same bytes tied names of one of them: of the name that has moments, else of the first
  /// name that is not the head's, because models register an embedding before the head that shares it.
  void tie_names() {
    std::map<std::tuple<uint32_t, uint64_t, std::vector<int64_t>>, std::vector<size_t>> same;
    for (size_t i = 0; i < out_.tensors.size(); ++i)
      if (const auto& t = out_.tensors[i]; t.kind != tensor_kind::moment && !t.pieces.empty())
        same[{t.pieces[0].file, t.pieces[0].offset_bytes, t.shape}].push_back(i);
    std::set<std::string> tied;
    for (const auto& [place, all] : same) {
      auto owner = std::ranges::find_if(all, [&](size_t i) { return has_moments_.contains(out_.tensors[i].name); });
      if (owner == all.end())
        owner = std::ranges::find_if(all, [&](size_t i) { return bare_name(out_.tensors[i].name) != head_name; });
      const auto& of = out_.tensors[owner == all.end() ? all.front() : *owner].name;
      for (const size_t i : all)
        if (const auto& name = out_.tensors[i].name;
            name != of && !has_moments_.contains(name) && tied.insert(name).second)
          out_.tied.push_back({name, of});
    }
    std::erase_if(out_.tensors, [&](const tensor_entry& t) { return tied.contains(t.name); });
  }

  /// Chooses the names of weights: their own names if no two weights share one, else the flat names.
  void name_weights(const entry_map& entries, const optimizers_entries& optimizers) {
    std::set<std::string> seen;
    for (const auto& [name, e] : entries)
      if (e.is_tensor() && !optimizers.contains(name, e))
        keeps_own_ = seen.insert(own_name(name, e)).second && keeps_own_;
    for (const auto& [name, e] : entries)
      if (e.is_tensor() && !optimizers.contains(name, e)) {
        weights_.emplace(keeps_own_ ? own_name(name, e) : name, &e);
        of_own_.emplace(own_name(name, e), keeps_own_ ? own_name(name, e) : name);
      }
  }

  core::result<void> add(const std::string& name, const distributed_entry& e, bool is_optimizers) {
    if (!e.unread_type.empty()) {
      left_out_.add_unread(name, e.unread_type);
      if (is_optimizers) left_out_.give_up_states(fmt::format("'{}' has the type {}", shown(name), e.unread_type));
      return {};
    }
    if (!e.is_tensor()) return is_optimizers ? add_counter(name, e) : add_object(name, e);
    if (!is_optimizers)
      return add_tensor(keeps_own_ ? own_name(name, e) : name,
                        is_floating(*e.type) ? tensor_kind::weight : tensor_kind::buffer, {}, e);
    if (is_of_group(name)) return is_counter(name) ? add_step(name, e) : core::result<void>();
    const auto rest = behind_state(name);
    const auto last = rest.rfind('.'), first = rest.find('.');
    if (last == rest.npos) return leave_out(name);
    if (const auto* w = weight(rest.substr(0, last))) return add_state(name, *w, rest.substr(last + 1), e);
    if (const auto* w = weight(rest.substr(first + 1))) return add_state(name, *w, rest.substr(0, first), e);
    return leave_out(name);
  }

  /// Returns the name, in this source, of the weight whose name within the model is `own`; null if there is none.
  [[nodiscard]] const std::string* weight(std::string_view own) const {
    const auto at = of_own_.find(own);
    return at == of_own_.end() ? nullptr : &at->second;
  }

  core::result<void> leave_out(const std::string& name) {
    left_out_.add_state(name);
    return {};
  }

  /// Removes all moments and counters. Master weights that the optimizer stores stay, because they are the weights.
  void leave_out_states() {
    std::erase_if(out_.tensors, [](const tensor_entry& t) { return t.kind == tensor_kind::moment; });
    has_moments_.clear();
    counts_ = {};
  }

  core::result<void> add_state(const std::string& name, const std::string& of, std::string_view state,
                               const distributed_entry& e) {
    if (state == "step") return add_step(name, e);
    const auto& shape = weights_.find(of)->second->shape;
    if (e.shape != shape && !is_flattened(e.shape, shape)) {
      left_out_.add_misfit(name, e.shape, shape);
      return {};
    }
    const bool is_master = state == "fp32_param";
    (is_master ? has_masters_ : has_moments_).insert(of);
    const auto kind = is_master ? tensor_kind::master : tensor_kind::moment;
    TROUPE_TRY(add_tensor(of, kind, is_master ? "" : std::string(state), e));
    auto& added = out_.tensors.back();
    if (added.shape != shape && added.cut.cuts()) added = without_shares(added);
    added.shape = shape;
    return {};
  }

  [[nodiscard]] core::result<torch_archive> open(const distributed_item& item) const {
    const auto& file = out_.files[item.file];
    auto archive = torch_archive::open_part(file.path, item.begin, item.bytes);
    if (archive) file.sums->add(*archive);
    return archive;
  }

  core::result<void> add_tensor(const std::string& name, tensor_kind kind, std::string moment,
                                const distributed_entry& e) {
    tensor_entry entry{name, kind, std::move(moment), *e.type, e.shape, {}};
    std::vector<placed_chunk> chunks;
    chunks.reserve(e.items.size());
    for (const auto& item : e.items) {
      if (is_plain_) {
        const piece whole{item.file, 0, item.bytes / core::size_of(entry.type), item.begin, {}};
        chunks.push_back({item.offsets, item.sizes, {whole}});
        continue;
      }
      TROUPE_ASSIGN(const auto archive, open(item));
      TROUPE_ASSIGN(auto t, archive.tensor(archive.root()));
      if (t.type != entry.type || t.shape != item.sizes)
        return refused(fmt::format("the tensor at byte {} of '{}' has another type or shape than .metadata states",
                                   item.begin, archive.name()));
      auto& chunk = chunks.emplace_back(placed_chunk{item.offsets, item.sizes, {}});
      t.begin += item.begin;
      TROUPE_TRY(views_.add(chunk.pieces, out_, item.file, t));
    }
    TROUPE_TRY(lay_chunks(entry, chunks));
    out_.tensors.push_back(std::move(entry));
    return {};
  }

  core::result<void> read_number(const distributed_entry& e, std::span<std::byte> out) const {
    const auto& item = e.items.front();
    if (is_plain_) {
      const auto file = core::source_file::open(out_.files[item.file].path);
      return file ? file->read(item.begin, out) : fail(file.error());
    }
    TROUPE_ASSIGN(const auto archive, open(item));
    TROUPE_ASSIGN(const auto t, archive.tensor(archive.root()));
    if (t.numel != 1 || t.type != *e.type) return refused("one number of its type was wanted");
    TROUPE_TRY(archive.check_sum(t));
    return archive.read(t.begin, out);
  }

  static bool is_of_group(std::string_view name) { return name.find("param_groups.") != name.npos; }
  static bool is_counter(std::string_view name) { return name.ends_with(".step"); }

  /// Records the number of updates that the optimizer has counted for one parameter or group, a double or an int64_t.
  core::result<void> count(const std::string& name, auto number) {
    const auto steps = steps_from(number);
    if (!steps) return give_up(name, fmt::format("{}", number));
    if (is_of_group(name))
      counts_.add_group(*steps);
    else
      counts_.add_parameter(fmt::format("'{}'", shown(name)), *steps);
    return {};
  }
  core::result<void> give_up(const std::string& name, const std::string& got) {
    left_out_.give_up_states(fmt::format("a number of steps was wanted as '{}', got {}", shown(name), got));
    return {};
  }

  /// Returns the number of updates that the optimizer's counters state. If it has none (torch.optim's SGD), returns the
  /// position of the learning-rate schedule, with a remark; nothing if that is 0 or there are no moments.
  std::optional<uint64_t> updates() {
    if (auto line = counts_.difference()) out_.remarks.push_back(std::move(*line));
    if (const auto counted = counts_.updates()) return counted;
    const auto position = out_.run.schedule_position.value_or(0);
    if (position <= 0 || has_moments_.empty()) return std::nullopt;
    out_.remarks.push_back(fmt::format(
        "the schedule's last_epoch, {}, is used as the number of steps: the optimizer stores none", position));
    return static_cast<uint64_t>(position);
  }

  core::result<void> add_step(const std::string& name, const distributed_entry& e) {
    if (e.items.size() != 1 || core::numel_of(e.shape) != 1) return refused("one number was wanted");
    std::array<std::byte, 8> bytes{};
    TROUPE_TRY(read_number(e, std::span(bytes).first(core::size_of(*e.type))));
    const auto as = [&]<class number>(number n) {
      std::copy_n(bytes.begin(), sizeof n, std::as_writable_bytes(std::span(&n, 1)).begin());
      return n;
    };
    if (e.type == core::dtype::f32) return count(name, double{as(float{})});
    if (e.type == core::dtype::f64) return count(name, as(double{}));
    if (e.type == core::dtype::i64) return count(name, as(int64_t{}));
    if (e.type == core::dtype::i32) return count(name, int64_t{as(int32_t{})});
    return give_up(name, fmt::format("one of {}, which cannot represent every number", core::name_of(*e.type)));
  }

  /// Reads `step` of a parameter or a group where the optimizer stores it as a Python number.
  core::result<void> add_counter(const std::string& name, const distributed_entry& e) {
    if (!is_counter(name)) return {};
    if (!is_of_group(name)) {
      const auto rest = behind_state(name);
      const bool is_known = rest.ends_with(".step") && weight(rest.substr(0, rest.size() - 5)) != nullptr;
      if (!is_known) return {};
    }
    TROUPE_ASSIGN(const auto archive, open(e.items.front()));
    const auto& tree = archive.tree();
    if (tree.kind(archive.root()) == pickle_kind::real) return count(name, tree.real(archive.root()));
    const auto n = archive.integer(archive.root());
    return n ? count(name, *n) : give_up(name, "another value");
  }

  /// Reads the one object that is imported: the position of torch's learning-rate schedule.
  core::result<void> add_object(const std::string& name, const distributed_entry& e) {
    constexpr std::string_view position = "last_epoch";
    const bool is_position =
        name == position || (name.ends_with(position) && name[name.size() - position.size() - 1] == '.');
    if (!is_position) return {};
    TROUPE_ASSIGN(const auto archive, open(e.items.front()));
    const auto n = archive.integer(archive.root());
    if (n && *n >= 0) out_.run.schedule_position = std::max(out_.run.schedule_position.value_or(0), *n);
    return {};
  }

  tensor_source out_;
  bool is_plain_ = false;  ///< true: items are elements in safetensors files, not archives
  bool keeps_own_ = true;
  std::map<std::string, const distributed_entry*, std::less<>> weights_;  ///< [name of a weight in `out_`]: its entry
  std::map<std::string, std::string, std::less<>> of_own_;  ///< [own_name() of a weight]: its tensor's name in `out_`
  std::set<std::string, std::less<>> has_moments_, has_masters_;
  update_counts counts_;
  strided_views views_;
  left_out_entries left_out_;
};

}  // namespace

core::result<tensor_source> read_distributed_source(const fs::path& folder) { return distributed_reader(folder).run(); }

constexpr source_format distributed_format{
    .described = "a folder of torch.distributed.checkpoint",
    .lacks = "no .metadata (torch.distributed.checkpoint)",
    .in_folder = [](const fs::path& folder) -> core::result<likeness> {
      const bool has_metadata = storage::is_there(folder / distributed_metadata_name) ||
                                storage::is_there(folder / accelerate_model_folder / distributed_metadata_name);
      return has_metadata || holds_safetensors_shards(folder) ? likeness::certain : likeness::none;
    },
    .has_states =
        [](const fs::path& folder) {
          const bool is_accelerates = !storage::is_there(folder / distributed_metadata_name) &&
                                      storage::is_folder(folder / accelerate_model_folder);
          return !is_accelerates || storage::is_folder(folder / accelerate_optimizer_folder) ||
                 storage::is_there(folder / "optimizer.bin");
        },
    .open = [](const fs::path& folder, const source_options&) { return read_distributed_source(folder); },
    .has_module_names = true,
    .has_trainer_files = true,
    .lies_below_config = true,
};

}  // namespace troupe::formats
