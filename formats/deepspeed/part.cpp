// Reads the model's lists, then the flat groups of every rank, then the tensors that only the module holds.
#include "formats/deepspeed/part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>

#include "core/tensor_view.hpp"
#include "formats/deepspeed/lists.hpp"
#include "formats/deepspeed/run.hpp"
#include "formats/deepspeed/stage0.hpp"
#include "formats/deepspeed/zero.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/torch/pieces.hpp"

namespace troupe::formats {
namespace {

using core::refused;

class part_reader {
 public:
  part_reader(const deepspeed_files& in, uint32_t mp, std::vector<source_file>& files,
              std::optional<given_states> given)
      : in_(in), mp_(mp), files_(files), given_(std::move(given)) {}

  core::result<deepspeed_part> run(const numbered_archive& model, source_run& run, optimizer_steps& steps);

 private:
  core::result<void> read_shards(source_run& run, optimizer_steps& steps);
  core::result<void> read_optimizer(const torch_archive& model, source_run& run, optimizer_steps& steps);
  core::result<void> read_frozen(const source_run& run);
  core::result<void> add_whole(const std::string& name, tensor_kind kind, const torch_tensor& tensor);
  core::result<void> add_module();
  core::result<void> compare_weights();
  void note_order();

  const deepspeed_files& in_;
  uint32_t mp_;
  std::vector<source_file>& files_;
  std::optional<given_states> given_;
  uint32_t number_ = 0;  ///< index in `files_` of the model file that is being read
  deepspeed_lists lists_;
  deepspeed_part out_;
  std::map<std::string, size_t, std::less<>> masters_;  ///< name of a master weight -> its index in `out_.tensors`
  std::set<std::string, std::less<>> listed_;           ///< names that have a tensor already or are tied to one
};

std::vector<deepspeed_file> of_rank(const std::vector<deepspeed_file>& files, uint32_t mp) {
  std::vector<deepspeed_file> out;
  std::ranges::copy_if(files, std::back_inserter(out), [&](const auto& f) { return f.mp == mp; });
  return out;
}

core::result<deepspeed_part> part_reader::run(const numbered_archive& model, source_run& run, optimizer_steps& steps) {
  number_ = model.number;
  TROUPE_ASSIGN(auto lists, read_deepspeed_lists(model));
  lists_ = std::move(lists);
  out_.unread = std::move(lists_.unread);
  TROUPE_TRY(read_shards(run, steps));
  if (out_.stage == 0)
    if (auto ok = read_optimizer(model, run, steps); !ok) return fail(ok.error().in(fmt::format("'{}'", model.name())));
  for (size_t i = 0; i < out_.tensors.size(); ++i) {
    listed_.insert(out_.tensors[i].name);
    if (out_.tensors[i].kind == tensor_kind::master) masters_.emplace(out_.tensors[i].name, i);
  }
  if (out_.stage != 0 && steps.differs_from(run)) TROUPE_TRY(compare_weights());
  if (out_.stage == 3) TROUPE_TRY(read_frozen(run));
  // Tied names are added after the frozen parameters, because a name may be tied to one of them.
  for (const auto& [name, owner] : lists_.shared)
    if (listed_.contains(owner) && listed_.insert(name).second) out_.tied.push_back({name, owner});
  if (auto ok = add_module(); !ok) return fail(ok.error().in(fmt::format("'{}'", model.name())));
  note_order();
  return std::move(out_);
}

core::result<void> part_reader::read_shards(source_run& run, optimizer_steps& steps) {
  if (given_) {
    out_.tensors = std::move(given_->tensors);
    out_.stage = given_->stage;
    out_.has_optimizer = true;
    return {};
  }
  const auto shards = of_rank(in_.optimizer, mp_);
  if (shards.empty() && lists_.has_groups)
    return refused(
        fmt::format("'{}' holds no '*_optim_states.pt' of model-parallel rank {}, although the model's file lists the "
                    "parameters in them",
                    in_.folder.string(), mp_));
  if (shards.empty()) return {};
  if (!lists_.has_groups)
    return refused(fmt::format("'{}' has no 'param_shapes', which is required to read '{}'",
                               files_[number_].path.string(), shards.front().path.string()));
  zero_shards zero(shards.size());
  for (const auto& shard : shards) {
    TROUPE_ASSIGN(const auto file, open_numbered(files_, shard.path));
    if (auto ok = zero.add(file, file.number, steps); !ok) return fail(ok.error().in(fmt::format("'{}'", file.name())));
    if (!run.loss_scale)
      if (const auto state = file.tree().find(file.root(), "optimizer_state_dict"))
        run.loss_scale = loss_scale_of(file, *state);
  }
  out_.stage = zero.stage();
  out_.has_optimizer = true;
  auto ok = zero.place(lists_.groups, out_.tensors);
  if (ok) return ok;
  if (in_.has_offloaded)
    return refused(
        fmt::format("the states of '{}' were offloaded to NVMe: 'offloaded_tensors' holds them as swap "
                    "files without names or shapes, which cannot be read; save without offload to NVMe",
                    in_.folder.string()));
  return fail(ok.error().in(fmt::format("'{}'", in_.folder.string())));
}

/// Reads the optimizer of stage 0, which is stored in the model file.
core::result<void> part_reader::read_optimizer(const torch_archive& model, source_run& run, optimizer_steps& steps) {
  std::set<std::string_view> left_out(lists_.buffers.begin(), lists_.buffers.end());
  const auto aliases = aliases_in(lists_.module);
  for (const auto& [name, owner] : aliases) left_out.insert(name);
  named_tensors parameters;
  std::ranges::copy_if(lists_.module, std::back_inserter(parameters),
                       [&](const auto& t) { return !left_out.contains(t.first); });
  TROUPE_ASSIGN(auto states, read_stage0(model, number_, parameters));
  out_.has_optimizer = states.has_value();
  if (states) {
    TROUPE_ASSIGN(const auto counts, read_stage0_counts(model));
    if (auto line = counts.difference()) out_.remarks.push_back(std::move(*line));
    if (const auto updates = counts.updates()) TROUPE_TRY(steps.add(model.name(), *updates));
    out_.tensors = std::move(*states);
  }
  if (const auto optimizer = model.tree().find(model.root(), "optimizer"))
    run.loss_scale = loss_scale_of(model, *optimizer);
  return {};
}

/// Reads the frozen parameters of stage 3, of which every rank's model file holds a part.
core::result<void> part_reader::read_frozen(const source_run& run) {
  if (lists_.frozen.empty()) return {};
  std::vector<flat_vector> whole(lists_.frozen.size());
  const auto holders = of_rank(in_.model, mp_);
  if (const size_t shards = of_rank(in_.optimizer, mp_).size(); !given_ && holders.size() != shards)
    return refused(fmt::format("'{}': frozen parameters are stored in {} model files, {} were wanted",
                               in_.folder.string(), holders.size(), shards));
  for (const auto& holder : holders) {
    TROUPE_ASSIGN(const auto file, open_numbered(files_, holder.path));
    TROUPE_TRY(check_steps_of_model(file, run));
    const auto fragments = file.tree().find(file.root(), "frozen_param_fragments");
    for (size_t i = 0; i < whole.size(); ++i) {
      const std::string& name = lists_.frozen[i].first;
      const auto fragment = fragments ? file.tree().find(*fragments, name) : std::nullopt;
      if (!fragment) return refused(fmt::format("'{}' lacks the frozen parameter '{}'", file.name(), shown(name)));
      TROUPE_ASSIGN(const auto tensor, file.tensor(*fragment));
      if (auto ok = whole[i].append(file.number, tensor); !ok)
        return fail(ok.error().in(fmt::format("'{}': parameter '{}'", file.name(), shown(name))));
    }
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    const auto& [name, shape] = lists_.frozen[i];
    const uint64_t numel = core::numel_of(shape);
    if (whole[i].numel() < numel)
      return refused(fmt::format("frozen parameter '{}' has {} elements, but only {} are stored", shown(name), numel,
                                 whole[i].numel()));
    auto& tensor = out_.tensors.emplace_back(tensor_entry{name, tensor_kind::frozen, "", whole[i].type(), shape, {}});
    whole[i].cut(0, numel, tensor.pieces);
    listed_.insert(name);
  }
  return {};
}

core::result<void> part_reader::add_whole(const std::string& name, tensor_kind kind, const torch_tensor& tensor) {
  auto& out = out_.tensors.emplace_back(tensor_entry{name, kind, "", tensor.type, tensor.shape, {}});
  if (auto ok = add_pieces(out.pieces, number_, tensor); !ok)
    return fail(ok.error().in(fmt::format("tensor '{}'", shown(name))));
  return {};
}

/// Compares the first `fitted_elements` elements of each weight in the module with its master weight, rounded to the
/// weight's type, until one differs. Stores the result in `out_.weights`.
core::result<void> part_reader::compare_weights() {
  tensor_source both;
  both.files = files_;
  source_reader reader(both);
  std::array<std::byte, fitted_elements * sizeof(double)> stored{}, kept{}, rounded{};
  for (const auto& [name, tensor] : lists_.module) {
    const auto at = masters_.find(name);
    if (at == masters_.end() || tensor.numel == 0) continue;
    const auto& master = out_.tensors[at->second];
    if (!is_floating(tensor.type) || !is_floating(master.type) || tensor.shape != master.shape) continue;
    tensor_entry weight{name, tensor_kind::weight, "", tensor.type, tensor.shape, {}};
    TROUPE_TRY(add_pieces(weight.pieces, number_, tensor));
    const uint64_t n = std::min(fitted_elements, tensor.numel);
    TROUPE_TRY(reader.read(weight, 0, n, stored));
    TROUPE_TRY(reader.read(master, 0, n, kept));
    cast_elements(master.type, kept.data(), tensor.type, rounded.data(), n);
    out_.weights.has_weights = true;
    if (std::memcmp(stored.data(), rounded.data(), n * core::size_of(tensor.type)) == 0) continue;
    out_.weights.differing = name;
    return {};
  }
  return {};
}

core::result<void> part_reader::add_module() {
  const std::set<std::string_view> buffers(lists_.buffers.begin(), lists_.buffers.end());
  std::map<std::string_view, std::string_view> alias;
  const auto aliases = aliases_in(lists_.module);
  for (const auto& [name, owner] : aliases) alias.emplace(name, owner);
  for (const auto& [name, tensor] : lists_.module) {
    const bool is_buffer = buffers.contains(name);
    if (!is_buffer && out_.stage == 3) continue;  // stage 3 leaves parameters empty in the module
    if (const auto master = masters_.find(name); master != masters_.end()) {
      if (out_.tensors[master->second].type == tensor.type) continue;
      TROUPE_TRY(add_whole(name, tensor_kind::weight, tensor));
      continue;
    }
    if (listed_.contains(name)) continue;
    if (const auto owner = alias.find(name); owner != alias.end() && listed_.contains(owner->second)) {
      out_.tied.push_back({name, std::string(owner->second)});
      listed_.insert(name);
      continue;
    }
    // Without an optimizer it is unknown which parameters are frozen, so all count as trained.
    const auto kind = is_buffer                         ? tensor_kind::buffer
                      : out_.has_optimizer              ? tensor_kind::frozen
                      : tensor.type == core::dtype::f32 ? tensor_kind::master
                                                        : tensor_kind::weight;
    TROUPE_TRY(add_whole(name, kind, tensor));
    listed_.insert(name);
  }
  return {};
}

void part_reader::note_order() {
  const std::set<std::string_view> buffers(lists_.buffers.begin(), lists_.buffers.end());
  std::set<std::string_view> left(listed_.begin(), listed_.end());
  for (const auto& t : out_.tied) left.erase(t.name);
  const auto add = [&](const std::string& name) {
    if (!buffers.contains(name) && left.erase(name) != 0) out_.order.push_back(name);
  };
  for (const auto& [name, tensor] : lists_.module) add(name);
  for (const auto& group : lists_.groups)
    for (const auto& [name, shape] : group) add(name);
  for (const auto& [name, shape] : lists_.frozen) add(name);
}

}  // namespace

core::result<numbered_archive> open_numbered(std::vector<source_file>& files, const std::filesystem::path& path) {
  TROUPE_ASSIGN(auto file, torch_archive::open(path));
  const auto at = std::ranges::find(files, path, &source_file::path);
  const auto number = static_cast<uint32_t>(at - files.begin());
  if (at == files.end()) files.push_back(file_of(path, file));
  return numbered_archive{std::move(file), number};
}

core::result<deepspeed_part> read_deepspeed_part(const deepspeed_files& in, uint32_t mp, const numbered_archive& model,
                                                 std::vector<source_file>& files, source_run& run,
                                                 optimizer_steps& steps, std::optional<given_states> given) {
  return part_reader(in, mp, files, std::move(given)).run(model, run, steps);
}

}  // namespace troupe::formats
