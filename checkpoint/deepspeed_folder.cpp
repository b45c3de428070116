// Names of files, then the model's lists, then the flat groups of every rank.
#include "checkpoint/deepspeed_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "checkpoint/deepspeed_flat.hpp"
#include "checkpoint/safetensors_header.hpp"
#include "checkpoint/torch_archive.hpp"
#include "core/mapped_file.hpp"
#include "core/tensor_view.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;
using core::error_kind;
using core::fail;
using named_shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

tl::unexpected<core::error> refused(std::string why) { return fail(error_kind::bad_input, std::move(why)); }

/// Runs of digits compare as numbers: rank 10 comes behind rank 9.
bool natural_less(const std::string& a, const std::string& b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    const auto run = [&](const std::string& s, size_t& at) {
      while (at + 1 < s.size() && s[at] == '0' && digit(s[at + 1])) ++at;
      const size_t begin = at;
      while (at < s.size() && digit(s[at])) ++at;
      return s.substr(begin, at - begin);
    };
    const std::string x = run(a, i), y = run(b, j);
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
  }
  return a.size() < b.size();
}

core::result<fs::path> tag_folder(const fs::path& path, std::optional<std::string> tag) {
  std::error_code ec;
  if (!tag) {
    if (!fs::exists(path / "latest", ec)) return path;
    auto file = core::mapped_file::open(path / "latest");
    if (!file) return fail(file.error());
    tag.emplace(reinterpret_cast<const char*>(file->bytes().data()), std::min(file->bytes().size(), max_tag_bytes + 1));
    while (!tag->empty() && std::string_view(" \t\r\n").find(tag->back()) != std::string_view::npos) tag->pop_back();
  }
  if (tag->empty() || tag->size() > max_tag_bytes || *tag == "." || *tag == ".." || tag->find('/') != tag->npos ||
      tag->find('\0') != tag->npos)
    return refused(fmt::format("'{}' is no name of a checkpoint in '{}'", shown(*tag), path.string()));
  return path / *tag;
}

struct folder_files {
  std::vector<fs::path> model, optimizer;
};

core::result<folder_files> list_files(const fs::path& folder) {
  std::error_code ec;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec)) {
    names.push_back(at->path().filename().string());
    if (names.size() > max_deepspeed_files)
      return fail(error_kind::limit,
                  fmt::format("'{}' holds more than {} files", folder.string(), max_deepspeed_files));
  }
  if (ec) return refused(fmt::format("cannot read the folder '{}': {}", folder.string(), ec.message()));
  std::sort(names.begin(), names.end(), natural_less);
  folder_files out;
  for (const auto& name : names) {
    const bool model = name.ends_with("_model_states.pt"), optimizer = name.ends_with("_optim_states.pt");
    if (!model && !optimizer) continue;
    if (name.find("expert_") != name.npos || name.find("expp_rank") != name.npos || name.starts_with("layer_"))
      return refused(fmt::format("'{}' belongs to experts or a pipeline; plain data parallelism was wanted",
                                 (folder / name).string()));
    if (name.find("mp_rank_") != name.npos && name.find("mp_rank_00_") == name.npos)
      return refused(fmt::format("'{}' belongs to tensor parallelism; plain data parallelism was wanted",
                                 (folder / name).string()));
    (model ? out.model : out.optimizer).push_back(folder / name);
  }
  if (out.model.empty())
    return refused(
        fmt::format("'{}' holds no '*_model_states.pt' and no 'latest': not a DeepSpeed checkpoint", folder.string()));
  if (out.optimizer.empty())
    return refused(fmt::format("'{}' holds no '*_optim_states.pt': ZeRO stage 1, 2 or 3 was wanted", folder.string()));
  return out;
}

core::result<named_shapes> shapes_of(const torch_archive& file, pickle_ref dict, const char* what) {
  const auto items = file.tree().items(dict);
  if (file.tree().kind(dict) != pickle_kind::dict) return refused(fmt::format("{} is no dict", what));
  named_shapes out;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (file.tree().kind(items[i]) != pickle_kind::text) return refused(fmt::format("a name in {} is no text", what));
    auto shape = file.shape(items[i + 1]);
    const std::string name(file.tree().text(items[i]));
    if (!shape) return fail(shape.error().in(fmt::format("{} of '{}'", what, shown(name))));
    if (!bytes_of(core::dtype::f64, *shape))
      return refused(fmt::format("{} of '{}' is beyond any file", what, shown(name)));
    out.emplace_back(name, std::move(*shape));
  }
  return out;
}

/// Reads one folder; what it finds grows in `out`.
class folder_reader {
 public:
  core::result<deepspeed_index> run(const fs::path& folder) {
    out_.folder = folder;
    auto files = list_files(folder);
    if (!files) return fail(files.error());
    out_.files = files->model;
    first_optimizer_ = files->model.size();
    out_.files.insert(out_.files.end(), files->optimizer.begin(), files->optimizer.end());
    out_.ranks = files->optimizer.size();
    if (auto ok = read_optimizers(); !ok) return fail(ok.error());
    auto model = open(0);
    if (!model) return fail(model.error());
    if (auto ok = read_model(*model); !ok) return fail(ok.error().in(fmt::format("'{}'", model->name())));
    std::set<std::string_view> names;
    for (const auto& t : out_.tensors)
      if (!names.insert(t.name).second) return refused(fmt::format("tensor '{}' is listed twice", shown(t.name)));
    return std::move(out_);
  }

 private:
  [[nodiscard]] core::result<torch_archive> open(size_t file) const { return torch_archive::open(out_.files[file]); }

  core::result<void> read_optimizers();
  core::result<void> read_shard(const torch_archive& file, size_t rank);
  core::result<void> add_group(const torch_archive& file, size_t rank, size_t group, pickle_ref master,
                               std::optional<pickle_ref> moments);
  core::result<void> read_model(const torch_archive& file);
  core::result<void> add_frozen(const torch_archive& file);
  core::result<void> add_whole(const torch_archive& file, const std::string& name, pickle_ref tensor,
                               deepspeed_role role);
  core::result<void> add_trainable(const torch_archive& file);
  core::result<void> add_striped(const named_shapes& shapes);
  core::result<void> add_flat(const std::vector<named_shapes>& groups);

  deepspeed_index out_;
  size_t first_optimizer_ = 0;
  /// Stages 1 and 2: by group, the ranks one behind the other. Stage 3: by rank, its sub-groups likewise.
  std::vector<flat_states> flat_;
  std::vector<std::vector<int64_t>> gaps_;  ///< by group, elements behind each parameter (newer DeepSpeed)
};

core::result<void> folder_reader::read_optimizers() {
  for (size_t rank = 0; rank < out_.ranks; ++rank) {
    auto file = open(first_optimizer_ + rank);
    if (!file) return fail(file.error());
    if (auto ok = read_shard(*file, rank); !ok) return fail(ok.error().in(fmt::format("'{}'", file->name())));
  }
  return {};
}

core::result<void> folder_reader::read_shard(const torch_archive& file, size_t rank) {
  const auto& tree = file.tree();
  const auto state = tree.find(file.root(), "optimizer_state_dict");
  if (!state) return refused("no 'optimizer_state_dict': not an optimizer shard of ZeRO");
  const auto stage_value = tree.find(*state, "zero_stage");
  int64_t stage = 1;  // BF16_Optimizer's shards do not say
  if (stage_value) {
    const auto read = file.integer(*stage_value);
    if (!read) return fail(read.error().in("zero_stage"));
    stage = *read;
  }
  if (stage < 1 || stage > 3 || (rank > 0 && stage != out_.stage))
    return refused(
        fmt::format("its ZeRO stage is {}, {} was wanted", stage, rank > 0 ? std::to_string(out_.stage) : "1, 2 or 3"));
  out_.stage = stage;
  if (const auto count = tree.find(*state, "partition_count")) {
    std::vector<pickle_ref> counts{*count};
    if (tree.kind(*count) == pickle_kind::list) counts.assign(tree.items(*count).begin(), tree.items(*count).end());
    for (const pickle_ref v : counts) {
      const auto n = file.integer(v);
      if (!n) return fail(n.error().in("partition_count"));
      if (*n < 0 || static_cast<uint64_t>(*n) != out_.ranks)
        return refused(fmt::format("it is one of {} shards, {} are there", *n, out_.ranks));
    }
  }
  const bool striped = stage == 3;
  const auto masters = tree.find(*state, striped ? "fp32_flat_groups" : "single_partition_of_fp32_groups");
  if (!masters || tree.kind(*masters) != pickle_kind::list) return refused("it has no list of fp32 groups");
  const auto groups = tree.items(*masters);
  if (striped) flat_.emplace_back();
  if (!striped && rank == 0) flat_.resize(groups.size());
  if (!striped && groups.size() != flat_.size())
    return refused(fmt::format("it has {} groups, {} were wanted", groups.size(), flat_.size()));
  if (const auto gaps = tree.find(*state, "param_alignment_paddings"); gaps && !striped && rank == 0)
    for (const pickle_ref group : tree.items(*gaps)) {
      auto list = file.shape(group);
      std::vector<int64_t> wide;
      if (!list)  // longer than a shape may be
        for (const pickle_ref v : tree.items(group)) {
          const auto n = file.integer(v);
          if (!n || *n < 0) return refused("param_alignment_paddings holds no whole numbers");
          wide.push_back(*n);
        }
      gaps_.push_back(list ? std::move(*list) : std::move(wide));
    }
  const auto base = tree.find(*state, striped ? "optimizer_state_dict" : "base_optimizer_state");
  const auto by_group = base ? tree.find(*base, "state") : std::nullopt;
  for (size_t g = 0; g < groups.size(); ++g) {
    std::optional<pickle_ref> moments;
    if (by_group) {
      moments = tree.find(*by_group, static_cast<int64_t>(g));
    } else if (base && tree.kind(*base) == pickle_kind::list && g < tree.items(*base).size()) {
      moments = tree.items(*base)[g];  // elastic: a list over groups
    }
    if (auto ok = add_group(file, rank, g, groups[g], moments); !ok)
      return fail(ok.error().in(fmt::format("group {}", g)));
  }
  return {};
}

core::result<void> folder_reader::add_group(const torch_archive& file, size_t rank, size_t group, pickle_ref master,
                                            std::optional<pickle_ref> moments) {
  const auto where = static_cast<uint32_t>(first_optimizer_ + rank);
  auto& states = flat_[out_.stage == 3 ? rank : group];
  const auto whole = file.tensor(master);
  if (!whole) return fail(whole.error());
  if (auto ok = states["fp32"].append(where, *whole); !ok) return ok;
  if (!moments) return {};
  const auto items = file.tree().items(*moments);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (file.tree().kind(items[i]) != pickle_kind::text || !file.is_tensor(items[i + 1])) continue;
    const auto moment = file.tensor(items[i + 1]);
    if (!moment) return fail(moment.error());
    if (moment->shape.size() != 1 || moment->numel < whole->numel) continue;  // a step counter
    if (auto ok = states[std::string(file.tree().text(items[i]))].append(where, *moment); !ok) return ok;
  }
  return {};
}

core::result<void> folder_reader::read_model(const torch_archive& file) {
  const auto& tree = file.tree();
  const auto names = tree.find(file.root(), "buffer_names");
  const auto module = tree.find(file.root(), "module");
  if (!names || !module) return refused("'buffer_names' and 'module' were wanted: not a model file of DeepSpeed");
  for (const pickle_ref v : tree.items(*names)) {
    if (tree.kind(v) != pickle_kind::text) return refused("the name of a buffer is no text");
    const std::string name(tree.text(v));
    const auto tensor = tree.find(*module, name);
    if (!tensor) continue;  // not persistent
    if (auto ok = add_whole(file, name, *tensor, deepspeed_role::buffer); !ok) return ok;
  }
  if (auto ok = add_frozen(file); !ok) return ok;
  if (auto ok = add_trainable(file); !ok) return ok;
  std::set<std::string, std::less<>> listed;
  for (const auto& t : out_.tensors) listed.insert(t.name);
  if (const auto shared = tree.find(file.root(), "shared_params")) {
    const auto items = tree.items(*shared);
    for (size_t i = 0; tree.kind(*shared) == pickle_kind::dict && i + 1 < items.size(); i += 2) {
      if (tree.kind(items[i]) != pickle_kind::text || tree.kind(items[i + 1]) != pickle_kind::text)
        return refused("the name of a shared parameter is no text");
      const std::string owner(tree.text(items[i + 1]));
      const auto of = std::ranges::find(out_.tensors, owner, &deepspeed_tensor::name);
      if (of == out_.tensors.end() || of->role == deepspeed_role::shared) continue;
      deepspeed_tensor alias{std::string(tree.text(items[i])), of->shape, deepspeed_role::shared, owner, {}};
      listed.insert(alias.name);
      out_.tensors.push_back(std::move(alias));
    }
  }
  if (out_.stage == 3) return {};
  // Stage 1 lists no frozen parameters; the module, which stages 1 and 2 save whole, has them.
  const size_t known = out_.tensors.size();
  const auto items = tree.items(*module);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (tree.kind(items[i]) != pickle_kind::text || !file.is_tensor(items[i + 1])) continue;
    const std::string name(tree.text(items[i]));
    if (listed.contains(name)) continue;
    if (auto ok = add_whole(file, name, items[i + 1], deepspeed_role::frozen); !ok) return ok;
  }
  const auto begin = out_.tensors.begin();
  const auto buffers_end = std::ranges::find_if(begin, begin + static_cast<std::ptrdiff_t>(known),
                                                [](const auto& t) { return t.role != deepspeed_role::buffer; });
  std::rotate(buffers_end, begin + static_cast<std::ptrdiff_t>(known), out_.tensors.end());
  return {};
}

core::result<void> folder_reader::add_whole(const torch_archive& file, const std::string& name, pickle_ref tensor,
                                            deepspeed_role role) {
  const auto found = file.tensor(tensor);
  if (!found) return fail(found.error().in(fmt::format("tensor '{}'", shown(name))));
  flat_vector whole;
  if (auto ok = whole.append(0, *found); !ok) return fail(ok.error().in(fmt::format("tensor '{}'", shown(name))));
  stored_state state{"weight", found->type, {}};
  whole.cut(0, found->numel, state.pieces);
  out_.tensors.push_back({name, found->shape, role, "", {std::move(state)}});
  return {};
}

core::result<void> folder_reader::add_frozen(const torch_archive& file) {
  const auto dict = file.tree().find(file.root(), "frozen_param_shapes");
  if (!dict || file.tree().kind(*dict) != pickle_kind::dict) return {};
  auto shapes = shapes_of(file, *dict, "frozen_param_shapes");
  if (!shapes) return fail(shapes.error());
  if (shapes->empty()) return {};
  std::vector<flat_vector> whole(shapes->size());
  // stage 3: every rank's model file holds its part of each
  const size_t holders = out_.stage == 3 ? first_optimizer_ : 1;
  if (out_.stage == 3 && holders != out_.ranks)
    return refused(fmt::format("frozen parameters lie in {} model files, {} were wanted", holders, out_.ranks));
  for (uint32_t h = 0; h < holders; ++h) {
    auto holder = open(h);
    if (!holder) return fail(holder.error());
    const auto fragments = holder->tree().find(holder->root(), "frozen_param_fragments");
    for (size_t i = 0; i < shapes->size(); ++i) {
      const std::string& name = (*shapes)[i].first;
      const auto fragment = fragments ? holder->tree().find(*fragments, name) : std::nullopt;
      if (!fragment) return refused(fmt::format("'{}' lacks the frozen parameter '{}'", holder->name(), shown(name)));
      const auto tensor = holder->tensor(*fragment);
      if (!tensor) return fail(tensor.error());
      if (auto ok = whole[i].append(h, *tensor); !ok) return fail(ok.error().in(shown(name)));
    }
  }
  for (size_t i = 0; i < shapes->size(); ++i) {
    auto& [name, shape] = (*shapes)[i];
    const uint64_t numel = core::numel_of(shape);
    if (whole[i].numel() < numel)
      return refused(
          fmt::format("frozen parameter '{}' has {} elements, {} are stored", shown(name), numel, whole[i].numel()));
    stored_state state{"weight", whole[i].type(), {}};
    whole[i].cut(0, numel, state.pieces);
    out_.tensors.push_back({name, std::move(shape), deepspeed_role::frozen, "", {std::move(state)}});
  }
  return {};
}

core::result<void> folder_reader::add_trainable(const torch_archive& file) {
  const auto list = file.tree().find(file.root(), "param_shapes");
  if (!list || file.tree().kind(*list) != pickle_kind::list) return refused("'param_shapes' is no list over groups");
  std::vector<named_shapes> groups;
  named_shapes all;
  for (const pickle_ref group : file.tree().items(*list)) {
    auto shapes = shapes_of(file, group, "param_shapes");
    if (!shapes) return fail(shapes.error());
    if (out_.stage == 3) all.insert(all.end(), shapes->begin(), shapes->end());
    groups.push_back(std::move(*shapes));
  }
  return out_.stage == 3 ? add_striped(all) : add_flat(groups);
}

/// Stage 3: every parameter is cut into one equal stripe per rank, the last ones padded.
core::result<void> folder_reader::add_striped(const named_shapes& shapes) {
  uint64_t at = 0;
  const uint64_t available = flat_.front()["fp32"].numel();
  for (const auto& states : flat_)
    for (const auto& [kind, first] : flat_.front())
      if (!states.contains(kind) || states.at(kind).numel() != available)
        return refused(fmt::format("the ranks' shards hold different amounts of '{}'", shown(kind)));
  for (const auto& [name, shape] : shapes) {
    const uint64_t numel = core::numel_of(shape), stripe = numel / out_.ranks + (numel % out_.ranks != 0 ? 1 : 0);
    if (stripe > available - at)
      return refused(
          fmt::format("parameter '{}' leaves the flat groups of {} elements a rank", shown(name), available));
    deepspeed_tensor tensor{name, shape, deepspeed_role::trainable, "", {}};
    for (const auto& [kind, first] : flat_.front()) {
      stored_state state{kind, first.type(), {}};
      for (size_t r = 0; r < out_.ranks; ++r) {
        const uint64_t before = std::min(numel, r * stripe);
        if (flat_[r].at(kind).type() != first.type()) return refused("the ranks' shards have different types");
        flat_[r].at(kind).cut(at, std::min(stripe, numel - before), state.pieces);
      }
      tensor.states.push_back(std::move(state));
    }
    out_.tensors.push_back(std::move(tensor));
    at += stripe;
  }
  if (at != available)
    return refused(fmt::format("the parameters take {} elements of a rank, its flat groups hold {}", at, available));
  return {};
}

/// Stages 1 and 2: every group is one vector, cut among the ranks wherever it falls.
core::result<void> folder_reader::add_flat(const std::vector<named_shapes>& groups) {
  if (groups.size() != flat_.size())
    return refused(fmt::format("the model lists {} groups, the shards hold {}", groups.size(), flat_.size()));
  for (size_t g = 0; g < groups.size(); ++g) {
    uint64_t at = 0;
    const uint64_t available = flat_[g]["fp32"].numel();
    if (!gaps_.empty() && (g >= gaps_.size() || gaps_[g].size() != groups[g].size()))
      return refused(fmt::format("group {} has {} parameters and another number of paddings", g, groups[g].size()));
    for (size_t p = 0; p < groups[g].size(); ++p) {
      const auto& [name, shape] = groups[g][p];
      const uint64_t numel = core::numel_of(shape);
      if (at > available || numel > available - at)
        return refused(fmt::format("parameter '{}' leaves group {} of {} elements", shown(name), g, available));
      deepspeed_tensor tensor{name, shape, deepspeed_role::trainable, "", {}};
      for (const auto& [kind, flat] : flat_[g]) {
        if (flat.numel() < at + numel)
          return refused(fmt::format("'{}' of parameter '{}' is cut short", shown(kind), shown(name)));
        tensor.states.push_back({kind, flat.type(), {}});
        flat.cut(at, numel, tensor.states.back().pieces);
      }
      out_.tensors.push_back(std::move(tensor));
      at += numel + (gaps_.empty() ? 0 : static_cast<uint64_t>(gaps_[g][p]));
    }
    const uint64_t align = 2 * out_.ranks;
    if ((at + align - 1) / align != (available + align - 1) / align)
      return refused(fmt::format("the parameters of group {} take {} elements, it holds {}", g, at, available));
  }
  return {};
}

}  // namespace

const stored_state* deepspeed_tensor::state(std::string_view kind) const {
  const auto at = std::ranges::find(states, kind, &stored_state::kind);
  return at == states.end() ? nullptr : &*at;
}

core::result<deepspeed_index> read_deepspeed_folder(const fs::path& path, const std::optional<std::string>& tag) {
  const auto folder = tag_folder(path, tag);
  if (!folder) return fail(folder.error());
  return folder_reader().run(*folder);
}

}  // namespace troupe::checkpoint
