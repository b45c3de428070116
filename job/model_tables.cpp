#include "job/model_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "core/tied_copies.hpp"
#include "job/compression/clean.hpp"
#include "job/compression/mask_scores.hpp"
#include "job/model/configured_model.hpp"
#include "job/model/folder_model.hpp"
#include "job/model/layer_reduction.hpp"
#include "job/tensor/tensor.hpp"
#include "models/table/row_tiles.hpp"
#include "models/table/teacher.hpp"
#include "plan/choose/batch_need.hpp"
#include "storage/memory/memory_room.hpp"

namespace troupe::job {
namespace {

using config::divergence_type;

class teacher_choice {
 public:
  explicit teacher_choice(const config::job_config& c) : c_(c) {}

  core::result<std::optional<models::teaching>> run(const models::model_spec& model, uint64_t sequence) {
    if (!c_.distillation.enabled) return std::nullopt;
    if (model.family->is_encoder)
      return refused("distillation.enabled",
                     fmt::format("cannot be combined with a {} model yet; set it to false", model.family->model_type));
    TROUPE_TRY(goes_together());
    auto spec = read_folder_model(c_.model.teacher, c_.model.ignore_keys);
    if (!spec) return core::fail(spec.error().in(where() + "model.teacher"));
    if (spec->family != model.family)
      return refused("model.teacher", "wanted a model of the same family, got one of another family");
    if (spec->vocabulary != model.vocabulary)
      return refused("model.teacher", fmt::format("wanted the model's vocabulary of {} tokens, got {}",
                                                  model.vocabulary, spec->vocabulary));
    if (spec->positions < sequence)
      return refused("model.teacher",
                     fmt::format("wanted at least the samples' {} positions, got {}", sequence, spec->positions));
    spec->head_tile_rows = model.head_tile_rows;
    models::teaching out{std::move(*spec),          {}, terms(), c_.distillation.hidden_states,
                         c_.distillation.attention, {}, {}};
    TROUPE_TRY(cut(out, sequence));
    TROUPE_TRY(compare_layers(model, out));
    return out;
  }

 private:
  [[nodiscard]] std::string where() const { return c_.distillation.where.empty() ? "" : c_.distillation.where + ": "; }
  [[nodiscard]] tl::unexpected<core::error> refused(const std::string& key, const std::string& text) const {
    return core::fail(core::error_kind::bad_input, where() + key + ": " + text);
  }
  [[nodiscard]] core::result<void> goes_together() const {
    const auto beside = [&](const std::string& what) {
      return refused("distillation.enabled", "cannot be combined with " + what + " yet; set it to false");
    };
    const auto& p = c_.parallel;
    if (p.tensor > 1 && c_.pipeline.cuts(p.pipeline))
      return beside(fmt::format("both parallel.tensor {} and a pipeline", p.tensor));
    for (const auto& [name, degree] :
         {std::pair("parallel.tensor", p.tensor), std::pair("parallel.sequence", p.sequence),
          std::pair("parallel.context", p.context)})
      if (degree > 1 && c_.distillation.attention > 0)
        return refused(
            "distillation.terms.attention",
            fmt::format("cannot be combined with {} {}, whose ranks hold parts of the attention maps; set it to 0",
                        name, degree));
    if (c_.model.teacher.empty())
      return refused("model.teacher", "wanted the folder of the model to learn from, got nothing");
    return {};
  }
  // Splits the teacher over tensor and sequence ranks in the same way as the model that is trained.
  [[nodiscard]] core::result<void> cut(models::teaching& out, uint64_t sequence) const {
    const auto one_row = models::make_model_table(out.teacher, 1, sequence, core::size_of(c_.parameter_dtype()));
    auto split = choose_split(c_, out.teacher, one_row, sequence);
    if (!split) return core::fail(split.error().in(where() + "model.teacher"));
    out.split = std::move(split->split);
    const auto columns = choose_sequence(c_, out.teacher, out.split, sequence);
    if (!columns) return core::fail(columns.error().in(where() + "model.teacher"));
    return {};
  }
  [[nodiscard]] core::result<void> compare_layers(const models::model_spec& model, models::teaching& out) const {
    const models::model_spec& teacher = out.teacher;
    TROUPE_TRY(alike("terms.hidden_states", out.hidden_states, "width", model.width, teacher.width));
    TROUPE_TRY(alike("terms.attention", out.attention, "number of heads", model.heads, teacher.heads));
    const bool alone = c_.distillation.layer_wise;
    if (alone) TROUPE_TRY(alike("layer_wise.enabled", 1, "width", model.width, teacher.width, "false"));
    if (out.hidden_states == 0 && out.attention == 0 && !alone) return {};
    const std::string key = alone                   ? "layer_wise.enabled"
                            : out.hidden_states > 0 ? "terms.hidden_states"
                                                    : "terms.attention";
    if (out.attention > 0 && c_.data.document_mask)
      return refused(
          "distillation.terms.attention",
          "cannot be combined with data.document_mask, with which attention maps end at documents; set it to 0");
    const auto& r = c_.compression.layers;
    const auto named = r.enabled ? r.teacher_layer : std::vector<uint64_t>();
    if (!r.enabled && teacher.layers < model.layers)
      return refused("distillation." + key,
                     fmt::format("the teacher has fewer layers ({}) than the model ({}); set it to {}", teacher.layers,
                                 model.layers, alone ? "false" : "0"));
    for (const uint64_t layer : named)
      if (layer >= teacher.layers)
        return refused(
            "compression_training.layer_reduction.teacher_layer",
            fmt::format("wanted layers of the teacher, which has {}, counted from 0, got {}", teacher.layers, layer));
    // The function check_layer_reduction reports this error, with the key of the layer reduction.
    if (r.enabled && named.size() != model.layers) return {};
    if (out.hidden_states > 0) out.hidden = models::hidden_pairs(model.layers, teacher.layers, named);
    if (out.attention > 0) out.maps = models::map_pairs(model.layers, teacher.layers, named);
    if (alone) out.blocks = models::block_pairs(model.layers, teacher.layers, named);
    if (c_.pipeline.cuts(c_.parallel.pipeline) && models::units_beside(out, model.layers).empty())
      return refused("compression_training.layer_reduction.teacher_layer",
                     "a pipeline requires ascending layers, so that compared layers are in one stage");
    return {};
  }
  [[nodiscard]] core::result<void> alike(const char* term, double weight, const std::string& what, uint32_t own,
                                         uint32_t teacher, const char* wanted = "0") const {
    if (weight == 0 || own == teacher) return {};
    return refused(
        std::string("distillation.") + term,
        fmt::format("the teacher's {} ({}) differs from the model's ({}); set it to {}", what, teacher, own, wanted));
  }
  [[nodiscard]] kernels::distillation_terms terms() const {
    const auto& d = c_.distillation;
    const auto kind = d.divergence == divergence_type::reverse_kl ? kernels::divergence::reverse_kl
                      : d.divergence == divergence_type::jsd      ? kernels::divergence::jsd
                                                                  : kernels::divergence::forward_kl;
    return {d.cross_entropy, d.logits, d.temperature, kind, d.beta};
  }

  const config::job_config& c_;
};

/// Returns nullopt unless `distillation.enabled`. Reads the config.json of `model.teacher`. Refused (bad_input), with
/// file, line and key: another family, another vocabulary or fewer positions than `sequence` tokens, a folder without
/// config.json, and everything that cannot be combined with distillation yet.
core::result<std::optional<models::teaching>> choose_teaching(const config::job_config& config,
                                                              const models::model_spec& model, uint64_t sequence) {
  return teacher_choice(config).run(model, sequence);
}

/// Refuses a configuration whose batch sizes exceed the integers in use, or whose plans would exceed this machine's
/// memory. Does not check whether a run exceeds its memory: a job of thousands of ranks is planned on one machine and
/// runs on others.
core::result<void> plannable(const config::job_config& c, const core::model_table& one_row, uint64_t columns) {
  constexpr uint64_t most = uint64_t{1} << 62;
  const auto memory = storage::all_memory().value_or(storage::memory_room{most, "the machine"});
  plan::batch_request batches{.rows = c.train_micro_batch_size_per_gpu,
                              .columns = columns,
                              .accumulation = c.gradient_accumulation_steps,
                              .ranks = c.parallel.data};
  if (plan::need_of(one_row, batches).total() < double(most)) {
    batches.rows = 1;
    batches.ranks = std::min(batches.ranks, proved_ranks_max);
    if (plan::need_of(one_row, batches).plans <= double(memory.bytes)) return {};
  }
  const auto refusal = plan::refusal_of(one_row, batches, memory.bytes, memory.where + "'s memory");
  if (refusal.key.empty()) return {};
  return core::fail(core::error_kind::bad_input, refusal.key + ": " + refusal.text);
}

// Sets the numbers of rows of a tile of the head and of an MLP, from the limits in bytes and the widest MLP of any
// rank. Ranks use equal tiles; the bits of results do not depend on them.
void set_tiles(const config::job_config& c, uint64_t rows, const models::tensor_split& split, models::model_spec& to) {
  const uint64_t element_bytes = core::size_of(c.parameter_dtype());
  to.head_tile_rows = models::tile_rows_for(to, rows, element_bytes, c.row_tile_bytes);
  to.mlp_tile_rows =
      models::mlp_tile_rows_for(to, models::widest_inner(to, split), rows, element_bytes, c.mlp_tile_bytes);
}

/// Refuses attention dropout on a GPU, where Troupe does not support it yet.
core::result<void> drops_where_it_can(const config::job_config& c, const models::model_spec& spec) {
  if (c.device == core::device_kind::cpu || spec.attention_dropout == 0) return {};
  const std::string key = "model." + std::string(spec.family->keys.attention_dropout.name);
  return core::fail(core::error_kind::bad_input, key + ": device: cuda supports only 0 for now, got " +
                                                     core::text_of("%g", double{spec.attention_dropout}));
}

/// Refuses, on a GPU, heads whose width is not a multiple of 4: LibTorch's memory-efficient attention loads four
/// elements of a row at a time, whatever their type.
core::result<void> has_heads_that_it_can(const config::job_config& c, const models::model_spec& spec) {
  constexpr uint32_t width_step = 4;
  if (c.device == core::device_kind::cpu || spec.head_width % width_step == 0) return {};
  const auto& keys = spec.family->keys;
  const bool is_given = !keys.head_width.name.empty() && spec.heads * spec.head_width != spec.width;
  return core::fail(
      core::error_kind::bad_input,
      fmt::format("model.{}: device: cuda supports only heads whose width is a multiple of {}, got a width of {}",
                  is_given ? keys.head_width.name : keys.heads.name, width_step, spec.head_width));
}

/// Refuses a soft cap of attention scores on a GPU, where LibTorch's kernels have none.
core::result<void> caps_where_it_can(const config::job_config& c, const models::model_spec& spec) {
  const auto caps = [](const models::attention_options& a) { return a.soft_cap > 0; };
  if (c.device == core::device_kind::cpu || std::ranges::none_of(spec.attention, caps)) return {};
  return core::fail(core::error_kind::bad_input,
                    "model: device: cuda supports only attention scores without a soft cap for now");
}

/// Refuses an encoder on a GPU, where attention is causal and a loss has a target for each token.
core::result<void> sees_where_it_can(const config::job_config& c, const models::model_spec& spec) {
  if (c.device == core::device_kind::cpu || !spec.family->is_encoder) return {};
  return core::fail(
      core::error_kind::bad_input,
      fmt::format("model.model_type: device: cuda supports no encoder for now, got {}", spec.family->model_type));
}

core::result<core::model_table> read_table(blueprint& b) {
  const auto& c = *b.config;
  TROUPE_ASSIGN(auto model, read_model(c));
  b.spec = std::move(model.spec);
  TROUPE_TRY(drops_where_it_can(c, b.spec));
  TROUPE_TRY(has_heads_that_it_can(c, b.spec));
  TROUPE_TRY(caps_where_it_can(c, b.spec));
  TROUPE_TRY(sees_where_it_can(c, b.spec));
  b.spec.loss.label_smoothing = c.loss.label_smoothing;
  b.spec.loss.z_loss = c.loss.z_loss;
  b.sequence = model.sequence;
  const uint64_t element_bytes = core::size_of(c.parameter_dtype());
  set_tiles(c, c.train_micro_batch_size_per_gpu * b.sequence, {}, b.spec);
  const auto one_row = models::make_model_table(b.spec, 1, b.sequence, element_bytes);
  TROUPE_TRY(plannable(c, one_row, b.sequence));
  TROUPE_ASSIGN(auto split, choose_split(c, b.spec, one_row, b.sequence));
  b.tensor.split = std::move(split.split);
  b.tensor.origins = std::move(split.origins);
  TROUPE_ASSIGN(const auto sequence, choose_sequence(c, b.spec, b.tensor.split, b.sequence));
  b.tensor.sequence = sequence;
  set_tiles(c, c.train_micro_batch_size_per_gpu * sequence.most_columns(b.sequence), b.tensor.split, b.spec);
  // Distillation compares the teacher's logits of a row with the model's own logits, a tile of rows at a time, so the
  // head must be tiled.
  if (c.distillation.enabled && b.spec.head_tile_rows == 0) b.spec.head_tile_rows = models::panel_rows;
  TROUPE_ASSIGN(auto teaching, choose_teaching(c, b.spec, b.sequence));
  b.teaching = std::move(teaching);
  return models::make_model_table(b.spec, c.train_micro_batch_size_per_gpu, b.sequence, element_bytes);
}

core::model_table taught_table(const blueprint& b, core::model_table own) {
  if (!b.teaching) return own;
  const auto& c = *b.config;
  return models::with_teacher(std::move(own), *b.teaching, c.train_micro_batch_size_per_gpu, b.sequence,
                              core::size_of(c.parameter_dtype()));
}

core::model_table trained_as(const core::model_table& whole, core::model_table out) {
  for (size_t q = 0; q < out.parameters.size(); ++q) out.parameters[q].trainable = whole.parameters[q].trainable;
  out.note_frozen();
  return out;
}

// Returns the table of the model as one rank computes it, for the model that `whole` describes.
core::model_table own_table(const blueprint& b, const core::model_table& whole) {
  const auto& c = *b.config;
  const uint64_t rows = c.train_micro_batch_size_per_gpu, element_bytes = core::size_of(c.parameter_dtype());
  auto own = models::make_model_table(b.spec, rows, b.sequence, element_bytes, b.tensor.split, b.tensor.sequence);
  if (b.teaching)
    own = models::with_teacher(std::move(own), *b.teaching, rows, b.sequence, element_bytes, b.teaching->split,
                               b.tensor.sequence);
  return trained_as(whole, std::move(own));
}

// Returns `cut`, the splits of the parameters over tensor ranks, extended to all parameters of `whole`: a copy of a
// tied parameter is split like its original, other additional parameters are not split.
core::tp_plan with_copies(const core::model_table& whole, core::tp_plan cut) {
  for (auto q = static_cast<uint32_t>(cut.parameters.size()); q < whole.parameters.size(); ++q)
    cut.parameters.push_back(whole.parameters[q].is_copy() ? cut.parameters[whole.original(q)] : core::parameter_cut());
  return cut;
}

// Sets in `b` the whole model, one rank's table of it, and the splits of the parameters over tensor ranks. `whole`
// already states which parameters are trained, and the rank's table takes these flags over.
void cut_table(blueprint& b, const host_tables& host, core::model_table whole, bool copies) {
  const bool cuts = b.tensor.split.degree > 1 || b.tensor.sequence.degree > 1;
  auto own = !cuts ? core::model_table() : host.local != nullptr ? trained_as(whole, *host.local) : own_table(b, whole);
  if (cuts) add_scores_of(whole, own);
  if (copies) whole = core::with_copies(std::move(whole));
  b.tensor.cut = host.cut != nullptr ? with_copies(whole, *host.cut)
                                     : models::tp_plan_of(whole, b.tensor.split,
                                                          b.teaching ? b.teaching->split : models::tensor_split());
  b.tensor.whole = std::make_shared<const core::model_table>(std::move(whole));
  if (cuts && copies) own = core::with_copies(std::move(own));
  b.table = cuts ? std::make_shared<const core::model_table>(std::move(own)) : b.tensor.whole;
}

}  // namespace

core::result<void> make_model_tables(blueprint& b, const host_tables& own, bool with_copies_of_tied) {
  const auto& c = *b.config;
  core::model_table table;
  if (own.whole != nullptr) {
    if (c.distillation.enabled)
      return core::fail(
          core::error_kind::bad_input,
          "distillation.enabled: cannot be combined with a host program's own modules yet; set it to false");
    if (c.lora.given)
      return core::fail(core::error_kind::bad_input,
                        "lora: cannot be combined with a host program's own modules yet; remove the section");
    b.sequence = 1;
    b.tensor.split.degree = c.parallel.tensor;
    table = *own.whole;
    b.tensor.origins.resize(table.parameters.size(), cut_origin::host);
    TROUPE_TRY(plannable(c, table, b.sequence));
  } else {
    TROUPE_ASSIGN(auto read, read_table(b));
    table = std::move(read);
  }
  TROUPE_TRY(freeze(c, table));
  TROUPE_TRY(check_layer_reduction(c, table));
  TROUPE_TRY(add_scores(c, table));
  table.note_frozen();
  if (own.whole == nullptr) TROUPE_TRY(check_related(c, table));
  table = taught_table(b, std::move(table));
  if (!b.tensor.origins.empty()) b.tensor.origins.resize(table.parameters.size(), b.tensor.origins.back());
  cut_table(b, own, std::move(table), with_copies_of_tied);
  return check_exchange_pieces(c, *b.table);
}

}  // namespace troupe::job
