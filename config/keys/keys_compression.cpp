// Rows of the key table for `compression_training` and related sections: every technique has shared parameters and
// groups of modules.
#include <fmt/format.h>

#include "config/keys/key_rows.hpp"
#include "config/keys/values.hpp"

namespace troupe::config {
namespace {

using enum value_type;

struct technique {
  technique(key_rows& t, const std::string& name, std::string_view meaning,
            std::string_view waits_for = capability::compression)
      : around(t, "compression_training." + name, meaning),
        shared(t, "compression_training." + name + ".shared_parameters", "What all groups have in common.", waits_for),
        groups(t, "compression_training." + name + ".different_groups", "Groups of modules, by a name each."),
        group(t, "compression_training." + name + ".different_groups.*", "One group.", waits_for),
        params(t, "compression_training." + name + ".different_groups.*.params", "The group's numbers.", waits_for) {
    around.itself().switched_by("compression_training." + name + ".shared_parameters.enabled");
    if (!waits_for.empty()) shared.off("Use it.");
    group("modules", texts, "[\"*\"]", "Patterns of module names.");
    auto& related =
        group("related_modules", any, "none", "Modules that are cut along with those, as lists of patterns.");
    if (name.ends_with("quantization")) related.ignored("quantisation does not remove anything");
  }
  section_rows around, shared, groups, group, params;
};

/// Returns the functions that read and write a section's field for the key `quantization_type`.
template <auto Section>
hand_made grid_of() {
  return {[](job_config& c, const node& v) -> std::optional<std::string> {
            (c.compression.*Section).type = v.text == "symmetric" ? grid_type::symmetric : grid_type::asymmetric;
            return std::nullopt;
          },
          [](const job_config& c) -> std::string {
            return (c.compression.*Section).type == grid_type::symmetric ? "symmetric" : "asymmetric";
          }};
}

void add_quantization(key_rows& t) {
  using job = job_config;
  using compression = compression_section;
  using weight_section = weight_quantization_section;
  using input_section = activation_quantization_section;
  technique weights(t, "weight_quantization", "Weights of fewer bits.", {});
  weights.shared("enabled", boolean, "false", "Use it.")
      .into<&job::compression, &compression::weights, &weight_section::enabled>();
  weights.shared("quantizer_kernel", boolean, "false", "Use the CUDA kernel.").ignored("the device chooses the kernel");
  weights.shared("schedule_offset", integer, "0", "Updates before it begins.")
      .at_least(0)
      .into<&job::compression, &compression::weights, &weight_section::schedule_offset>();
  weights.shared("schedule_offset_end", integer, "none", "The step it ends at.")
      .at_least(0)
      .ignored("no technique is switched off again");
  weights.shared("quantize_groups", integer, "1", "Scales of one matrix.")
      .at_least(1)
      .into<&job::compression, &compression::weights, &weight_section::quantize_groups>();
  weights.shared("quantize_verbose", boolean, "false", "Log it.").ignored("troupe config explain shows what is chosen");
  weights.shared("quantization_type", text, "symmetric", "Around zero, or not.")
      .one_of({"symmetric", "asymmetric"})
      .by_hand(grid_of<&compression::weights>());
  weights.shared("quantize_weight_in_forward", boolean, "false", "At each use, not after each step.")
      .into<&job::compression, &compression::weights, &weight_section::in_forward>();
  weights.shared("rounding", text, "nearest", "How to round.")
      .one_of({"nearest", "stochastic"})
      .by_hand(
          {[](job& c, const node& v) -> std::optional<std::string> {
             c.compression.weights.stochastic = v.text == "stochastic";
             return std::nullopt;
           },
           [](const job& c) -> std::string { return c.compression.weights.stochastic ? "stochastic" : "nearest"; }});
  section_rows mixed(t, "compression_training.weight_quantization.shared_parameters.fp16_mixed_quantize",
                     "MoQ: fade from full to fewer bits.");
  mixed.itself().switched_by("compression_training.weight_quantization.shared_parameters.fp16_mixed_quantize.enabled");
  mixed("enabled", boolean, "false", "Do so.").into<&job::compression, &compression::weights, &weight_section::mixed>();
  mixed("quantize_change_ratio", number, "0.001", "The share of one step.")
      .above(0)
      .at_most(1)
      .into<&job::compression, &compression::weights, &weight_section::change_ratio>();
  weights.params("start_bits", integer, "none", "MoQ: bits at first.").at_least(1).at_most(32);
  weights.params("target_bits", integer, "none", "Bits in the end.").at_least(1).at_most(32);
  weights
      .params("quantization_period", integer, "1",
              "MoQ: steps until the first bit goes; each next one takes twice as long. 0: one each step.")
      .at_least(0);

  technique activations(t, "activation_quantization", "Activations of fewer bits.", {});
  activations.shared("enabled", boolean, "false", "Use it.")
      .into<&job::compression, &compression::activations, &input_section::enabled>();
  activations.shared("quantization_type", text, "symmetric", "Around zero, or not.")
      .one_of({"symmetric", "asymmetric"})
      .by_hand(grid_of<&compression::activations>());
  activations.shared("range_calibration", text, "dynamic", "The range: of each token, or learned.")
      .one_of({"dynamic", "static"})
      .by_hand(
          {[](job& c, const node& v) -> std::optional<std::string> {
             c.compression.activations.is_static = v.text == "static";
             return std::nullopt;
           },
           [](const job& c) -> std::string { return c.compression.activations.is_static ? "static" : "dynamic"; }});
  activations.shared("schedule_offset", integer, "1000", "Updates before it begins.")
      .at_least(0)
      .into<&job::compression, &compression::activations, &input_section::schedule_offset>();
  activations.params("bits", integer, "none", "4 or 8.").at_least(4).at_most(8);
}

/// Returns the functions that read and write a section's field for the key `method`.
template <auto Section>
hand_made method_of() {
  using enum pruning_method;
  return {[](job_config& c, const node& v) -> std::optional<std::string> {
            (c.compression.*Section).method = v.text == "l1" ? l1 : v.text == "topk" ? topk : snip_momentum;
            return std::nullopt;
          },
          [](const job_config& c) -> std::string {
            const auto method = (c.compression.*Section).method;
            return method == l1 ? "l1" : method == topk ? "topk" : "snip_momentum";
          }};
}

/// Adds the keys that all kinds of pruning have.
template <auto Section>
technique add_pruning(key_rows& t, const std::string& name, std::string_view meaning, const char* method,
                      std::vector<std::string_view> methods) {
  using job = job_config;
  technique pruning(t, name, meaning, {});
  pruning.shared("enabled", boolean, "false", "Use it.")
      .template into<&job::compression, Section, &pruning_section::enabled>();
  pruning.shared("method", text, method, "What goes: the smallest, or what is learned.")
      .one_of(std::move(methods))
      .by_hand(method_of<Section>());
  pruning.shared("schedule_offset", integer, "1000", "Updates before it begins.")
      .at_least(0)
      .template into<&job::compression, Section, &pruning_section::schedule_offset>();
  pruning.params("dense_ratio", number, "none", "The share that stays.").above(0).at_most(1);
  return pruning;
}

void add_pruning(key_rows& t) {
  using job = job_config;
  using compression = compression_section;
  auto sparse = add_pruning<&compression::sparse>(t, "sparse_pruning", "Weights set to zero one by one.", "l1",
                                                  {"l1", "topk", "snip_momentum"});
  sparse.shared("block_pattern", text, "4x1", "snip_momentum: blocks that go together.")
      .into<&job::compression, &compression::sparse, &pruning_section::block_pattern>();
  sparse.shared("dense_ratio", number, "none", "snip_momentum: the share that stays in all groups, above their own.")
      .above(0)
      .below(1)
      .into<&job::compression, &compression::sparse, &pruning_section::dense_ratio>();
  sparse.shared("schedule_offset_stride", integer, "1", "snip_momentum: updates between two cuts.")
      .at_least(1)
      .into<&job::compression, &compression::sparse, &pruning_section::schedule_stride>();
  sparse.shared("schedule_offset_end", integer, "none", "snip_momentum: the update of the last cut.")
      .at_least(0)
      .into<&job::compression, &compression::sparse, &pruning_section::schedule_end>();
  sparse.shared("excluded_modules", texts, "[]", "snip_momentum: patterns of modules that stay whole.")
      .into<&job::compression, &compression::sparse, &pruning_section::excluded>();
  add_pruning<&compression::rows>(t, "row_pruning", "Whole rows removed.", "l1", {"l1", "topk"});
  auto heads = add_pruning<&compression::heads>(t, "head_pruning", "Whole heads removed.", "topk", {"l1", "topk"});
  heads.shared("num_heads", integer, "none", "Heads of the model.")
      .at_least(1)
      .into<&job::compression, &compression::heads, &pruning_section::num_heads>();
  add_pruning<&compression::channels>(t, "channel_pruning", "Whole channels removed.", "l1", {"l1", "topk"});
}

/// Returns a list as one line of YAML; empty for an empty list.
template <class List, class Text>
std::string listed(const List& all, Text text) {
  std::string out;
  for (const auto& x : all) out += (out.empty() ? "[" : ", ") + text(x);
  return out.empty() ? "none" : out + "]";
}

void add_layer_reduction(key_rows& t) {
  using job = job_config;
  using compression = compression_section;
  using layers = layer_reduction_section;
  section_rows key(t, "compression_training.layer_reduction",
                   "A model of fewer layers that begins with those of model.teacher.");
  key.itself().switched_by("compression_training.layer_reduction.enabled");
  key("enabled", boolean, "false", "Make one.").into<&job::compression, &compression::layers, &layers::enabled>();
  key("keep_number_layer", integer, "none", "Layers of the model.")
      .at_least(1)
      .by_hand({[](job& c, const node& v) -> std::optional<std::string> {
                  c.compression.layers.keep_number_layer = integer_in(v)->magnitude;
                  return std::nullopt;
                },
                [](const job& c) {
                  const uint64_t n = c.compression.layers.keep_number_layer;
                  return n == 0 ? std::string("none") : fmt::to_string(n);
                }});
  key("module_name_prefix", text, "none", "What stands in front of a layer's number: transformer.h, model.layers.")
      .by_hand({[](job& c, const node& v) -> std::optional<std::string> {
                  c.compression.layers.module_name_prefix = v.text;
                  return std::nullopt;
                },
                [](const job& c) {
                  const std::string& name = c.compression.layers.module_name_prefix;
                  return name.empty() ? std::string("none") : quoted(name);
                }});
  key("teacher_layer", integers, "none", "For each layer the teacher's, counted from 0, that it begins with.")
      .at_least(0)
      .by_hand({[](job& c, const node& v) -> std::optional<std::string> {
                  for (const node_ptr& item : v.items)
                    c.compression.layers.teacher_layer.push_back(integer_in(*item)->magnitude);
                  return std::nullopt;
                },
                [](const job& c) {
                  return listed(c.compression.layers.teacher_layer, [](uint64_t n) { return fmt::to_string(n); });
                }});
  key("other_module_name", texts, "none", "Other modules that begin with the teacher's of the same name.")
      .by_hand({[](job& c, const node& v) -> std::optional<std::string> {
                  auto& names = c.compression.layers.other_module_names;
                  if (v.is_scalar()) names.push_back(v.text);
                  for (const node_ptr& item : v.items) names.push_back(item->text);
                  return std::nullopt;
                },
                [](const job& c) {
                  return listed(c.compression.layers.other_module_names, [](const auto& n) { return quoted(n); });
                }});
}

void add_distillation(key_rows& t) {
  using job = job_config;
  using section = distillation_section;
  section_rows key(t, "distillation", "What the model learns from model.teacher, beside its data.");
  key.itself().switched_by("distillation.enabled");
  key("enabled", boolean, "false", "Do so.").into<&job::distillation, &section::enabled>();
  key("temperature", number, "1", "Both models' logits are divided by it before they are compared.")
      .above(0)
      .into<&job::distillation, &section::temperature>();
  section_rows layer_wise(t, "distillation.layer_wise", "Blocks that learn one by one, from the teacher alone.");
  layer_wise("enabled", boolean, "false",
             "Give each block what the teacher's takes, and train it for what the teacher's puts out, by their mean "
             "squared difference, instead of terms. Embedding and head stay as they are.")
      .into<&job::distillation, &section::layer_wise>();
  section_rows terms(t, "distillation.terms", "What is added up to the loss that is trained.");
  terms("cross_entropy", number, "1", "The weight of the loss of the data alone.")
      .at_least(0)
      .into<&job::distillation, &section::cross_entropy>();
  terms(
      "hidden_states", number, "0",
      "The weight of each mean squared difference between hidden states: the embedding's, and each block's beside that "
      "of its layer of layer_reduction.teacher_layer, or of every k-th block where there are k for each.")
      .at_least(0)
      .into<&job::distillation, &section::hidden_states>();
  terms("attention", number, "0", "The same of attention maps, each block's beside that of its layer or of the k-th.")
      .at_least(0)
      .into<&job::distillation, &section::attention>();
  section_rows logits(t, "distillation.terms.logits", "How far the next token's distribution is from the teacher's.");
  logits("weight", number, "1", "Of the divergence times temperature squared.")
      .at_least(0)
      .into<&job::distillation, &section::logits>();
  logits("divergence", text, "forward_kl", "KL(teacher, model), KL(model, teacher), or the generalised Jensen-Shannon.")
      .one_of({"forward_kl", "reverse_kl", "jsd"})
      .by_hand(
          {[](job& c, const node& v) -> std::optional<std::string> {
             c.distillation.divergence = v.text == "reverse_kl" ? divergence_type::reverse_kl
                                         : v.text == "jsd"      ? divergence_type::jsd
                                                                : divergence_type::forward_kl;
             return std::nullopt;
           },
           [](const job& c) -> std::string {
             const auto d = c.distillation.divergence;
             return d == divergence_type::reverse_kl ? "reverse_kl" : d == divergence_type::jsd ? "jsd" : "forward_kl";
           }});
  logits("beta", number, "0.5", "jsd: the teacher's share of the mixture.")
      .above(0)
      .below(1)
      .into<&job::distillation, &section::beta>();
}

}  // namespace

void add_compression_keys(key_rows& t) {
  t.row("compression_training", section).means("Quantisation, pruning, layer reduction.");
  add_quantization(t);
  add_pruning(t);
  add_layer_reduction(t);
  add_distillation(t);

  section_rows eigenvalue(t, "eigenvalue", "Eigenvalues of layers, which slow the loss of bits.",
                          capability::compression);
  eigenvalue("enabled", boolean, "false", "Compute them.").just("false");
  eigenvalue("verbose", boolean, "false", "Log them.");
  eigenvalue("max_iter", integer, "100", "Iterations at most.").at_least(1);
  eigenvalue("tol", number, "0.01", "A change small enough to stop.").above(0);
  eigenvalue("stability", number, "1e-06", "Added against a division by zero.").at_least(0);
  eigenvalue("gas_boundary_resolution", integer, "1", "Steps between two computations.").at_least(1);
  eigenvalue("layer_name", text, "bert.encoder.layer", "What the layers are called.");
  eigenvalue("layer_num", integer, "0", "How many there are.").at_least(0);

  t.row("quantize_training", object)
      .ignored("DeepSpeed has dropped it; write compression_training: {weight_quantization: ...}")
      .means("The first form of weight quantisation.");
  section_rows weights(t, "weight_quantization", "Quantised weights at inference.");
  const auto inference = "Troupe trains; quantised weights are for inference";
  weights.itself().where_it_stands().ignored(inference);
  weights("enabled", boolean, "true", "Quantise them.").ignored(inference);
  weights("num_bits", integer, "8", "Bits.").at_least(1).at_most(16).ignored(inference);
  weights("q_type", text, "symmetric", "Around zero, or not.").one_of({"symmetric", "asymmetric"}).ignored(inference);
  weights("q_groups", integer, "1", "Scales of one matrix.").at_least(1).ignored(inference);
  weights("quantized_initialization", object, "none", "While loading.").ignored(inference);
  weights("post_init_quant", object, "none", "After loading.").ignored(inference);
}

}  // namespace troupe::config
