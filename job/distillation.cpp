#include "job/distillation.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace troupe::job {
namespace {

using config::divergence_type;

class teacher_choice {
 public:
  explicit teacher_choice(const config::job_config& c) : c_(c) {}

  core::result<std::optional<models::teaching>> run(const models::model_spec& model, uint64_t sequence) {
    if (!c_.distillation.enabled) return std::nullopt;
    if (auto ok = goes_together(); !ok) return core::fail(ok.error());
    auto spec = models::read_spec(c_.model.teacher);
    if (!spec) return core::fail(spec.error().in(where() + "model.teacher"));
    if (spec->kind != model.kind) return refused("model.teacher", "wanted a model of the same family, got another's");
    if (spec->vocabulary != model.vocabulary)
      return refused("model.teacher", "wanted the model's vocabulary of " + std::to_string(model.vocabulary) +
                                          " tokens, got " + std::to_string(spec->vocabulary));
    if (spec->positions < sequence)
      return refused("model.teacher", "wanted at least the samples' " + std::to_string(sequence) + " positions, got " +
                                          std::to_string(spec->positions));
    spec->head_tile_rows = model.head_tile_rows;
    models::teaching out{std::move(*spec), terms(), c_.distillation.hidden_states, c_.distillation.attention, {}, {}};
    if (auto ok = compare_layers(model, out); !ok) return core::fail(ok.error());
    return out;
  }

 private:
  [[nodiscard]] std::string where() const { return c_.distillation.where.empty() ? "" : c_.distillation.where + ": "; }
  [[nodiscard]] tl::unexpected<core::error> refused(const std::string& key, const std::string& text) const {
    return core::fail(core::error_kind::bad_input, where() + key + ": " + text);
  }
  [[nodiscard]] core::result<void> goes_together() const {
    const auto beside = [&](const std::string& what) {
      return refused("distillation.enabled",
                     "wanted false beside " + what + ", with which it does not go together yet, got true");
    };
    const auto& p = c_.parallel;
    for (const auto& [name, degree] :
         {std::pair("parallel.tensor", p.tensor), std::pair("parallel.pipeline", p.pipeline),
          std::pair("parallel.sequence", p.sequence), std::pair("parallel.context", p.context)})
      if (degree > 1) return beside(std::string(name) + " " + std::to_string(degree));
    if (c_.compile.enabled) return beside("compile");
    const auto& pruning = c_.compression;
    for (const auto* section : {&pruning.sparse, &pruning.rows, &pruning.heads, &pruning.channels})
      if (section->enabled && section->method == config::pruning_method::topk)
        return beside("masks that are learned (topk)");
    if (c_.tied == config::tied_gradients::per_use) return beside("tied_gradients per_use");
    if (c_.model.teacher.empty())
      return refused("model.teacher", "wanted the folder of the model to learn from, got nothing");
    return {};
  }
  [[nodiscard]] core::result<void> compare_layers(const models::model_spec& model, models::teaching& out) const {
    const models::model_spec& teacher = out.teacher;
    if (auto ok = alike("hidden_states", out.hidden_states, "width", model.width, teacher.width); !ok) return ok;
    if (auto ok = alike("attention", out.attention, "number of heads", model.heads, teacher.heads); !ok) return ok;
    if (out.hidden_states == 0 && out.attention == 0) return {};
    const std::string key = out.hidden_states > 0 ? "hidden_states" : "attention";
    if (out.attention > 0 && c_.data.document_mask)
      return refused("distillation.terms.attention", "wanted 0 beside data.document_mask, whose maps end at documents");
    const auto& r = c_.compression.layers;
    const auto named = r.enabled ? r.teacher_layer : std::vector<uint64_t>();
    if (!r.enabled && teacher.layers < model.layers)
      return refused("distillation.terms." + key, "wanted 0 beside a teacher of fewer layers, got the model's " +
                                                      std::to_string(model.layers) + " and the teacher's " +
                                                      std::to_string(teacher.layers));
    for (const uint64_t layer : named)
      if (layer >= teacher.layers)
        return refused("compression_training.layer_reduction.teacher_layer",
                       "wanted layers of the teacher's " + std::to_string(teacher.layers) + ", counted from 0, got " +
                           std::to_string(layer));
    if (r.enabled && named.size() != model.layers) return {};  // refused with its own key
    if (out.hidden_states > 0) out.hidden = models::hidden_pairs(model.layers, teacher.layers, named);
    if (out.attention > 0) out.maps = models::map_pairs(model.layers, teacher.layers, named);
    return {};
  }
  [[nodiscard]] core::result<void> alike(const char* term, double weight, const std::string& what, uint32_t own,
                                         uint32_t teacher) const {
    if (weight == 0 || own == teacher) return {};
    return refused(std::string("distillation.terms.") + term, "wanted 0 beside a teacher of another " + what +
                                                                  ", got the model's " + std::to_string(own) +
                                                                  " and the teacher's " + std::to_string(teacher));
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
