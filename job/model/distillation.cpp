#include "job/model/distillation.hpp"

#include <string>
#include <string_view>
#include <utility>

#include "job/model/folder_model.hpp"
#include "job/tensor/tensor.hpp"

namespace troupe::job {
namespace {

using config::divergence_type;

class teacher_choice {
 public:
  explicit teacher_choice(const config::job_config& c) : c_(c) {}

  core::result<std::optional<models::teaching>> run(const models::model_spec& model, uint64_t sequence) {
    if (!c_.distillation.enabled) return std::nullopt;
    TROUPE_TRY(goes_together());
    auto spec = read_folder_model(c_.model.teacher, c_.model.ignore_keys);
    if (!spec) return core::fail(spec.error().in(where() + "model.teacher"));
    if (spec->family != model.family)
      return refused("model.teacher", "wanted a model of the same family, got one of another family");
    if (spec->vocabulary != model.vocabulary)
      return refused("model.teacher", "wanted the model's vocabulary of " + std::to_string(model.vocabulary) +
                                          " tokens, got " + std::to_string(spec->vocabulary));
    if (spec->positions < sequence)
      return refused("model.teacher", "wanted at least the samples' " + std::to_string(sequence) + " positions, got " +
                                          std::to_string(spec->positions));
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
      return beside("both parallel.tensor " + std::to_string(p.tensor) + " and a pipeline");
    for (const auto& [name, degree] :
         {std::pair("parallel.tensor", p.tensor), std::pair("parallel.sequence", p.sequence),
          std::pair("parallel.context", p.context)})
      if (degree > 1 && c_.distillation.attention > 0)
        return refused("distillation.terms.attention",
                       "cannot be combined with " + std::string(name) + " " + std::to_string(degree) +
                           ", whose ranks hold parts of the attention maps; set it to 0");
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
      return refused("distillation." + key, "the teacher has fewer layers (" + std::to_string(teacher.layers) +
                                                ") than the model (" + std::to_string(model.layers) + "); set it to " +
                                                (alone ? "false" : "0"));
    for (const uint64_t layer : named)
      if (layer >= teacher.layers)
        return refused("compression_training.layer_reduction.teacher_layer",
                       "wanted layers of the teacher, which has " + std::to_string(teacher.layers) +
                           ", counted from 0, got " + std::to_string(layer));
    // The function check_layer_reduction reports this error, with the key of the layer reduction.
    if (r.enabled && named.size() != model.layers) return {};
    if (out.hidden_states > 0) out.hidden = models::hidden_pairs(model.layers, teacher.layers, named);
    if (out.attention > 0) out.maps = models::map_pairs(model.layers, teacher.layers, named);
    if (alone) out.blocks = models::block_lessons(model.layers, teacher.layers, named);
    if (c_.pipeline.cuts(c_.parallel.pipeline) && models::units_beside(out, model.layers).empty())
      return refused("compression_training.layer_reduction.teacher_layer",
                     "a pipeline requires ascending layers, so that compared layers are in one stage");
    return {};
  }
  [[nodiscard]] core::result<void> alike(const char* term, double weight, const std::string& what, uint32_t own,
                                         uint32_t teacher, const char* wanted = "0") const {
    if (weight == 0 || own == teacher) return {};
    return refused(std::string("distillation.") + term, "the teacher's " + what + " (" + std::to_string(teacher) +
                                                            ") differs from the model's (" + std::to_string(own) +
                                                            "); set it to " + wanted);
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

}  // namespace

core::result<std::optional<models::teaching>> choose_teaching(const config::job_config& config,
                                                              const models::model_spec& model, uint64_t sequence) {
  return teacher_choice(config).run(model, sequence);
}

}  // namespace troupe::job
