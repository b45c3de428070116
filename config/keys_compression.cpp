// `compression_training` and what belongs to it: every technique has shared parameters and groups of modules.
#include "config/capabilities.hpp"
#include "config/key_rows.hpp"

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
    if (!waits_for.empty()) shared.off("Use it.");
    group("modules", texts, "[\"*\"]", "Patterns of module names.");
    auto& related =
        group("related_modules", any, "none", "Modules that are cut along with those, as lists of patterns.");
    if (name.ends_with("quantization")) related.ignored("fewer bits cut nothing");
  }
  section_rows around, shared, groups, group, params;
};

/// `quantization_type` of a section.
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
      .just("nearest")
      .needs(capability::compression);
  section_rows mixed(t, "compression_training.weight_quantization.shared_parameters.fp16_mixed_quantize",
                     "Fade from full to fewer bits.", capability::compression);
  mixed("enabled", boolean, "false", "Do so.");
  mixed("quantize_change_ratio", number, "0.001", "The share of one step.").at_least(0).at_most(1);
  constexpr std::string_view at_once = "with quantize_weight_in_forward weights have target_bits at once";
  weights.params("start_bits", integer, "none", "Bits at first.").at_least(1).at_most(32);
  weights.params("target_bits", integer, "none", "Bits in the end.").at_least(1).at_most(32);
  weights.params("quantization_period", integer, "1", "Steps until the next bit goes; 0: all at once.")
      .at_least(0)
      .ignored(at_once);

  technique activations(t, "activation_quantization", "Activations of fewer bits.", {});
  activations.shared("enabled", boolean, "false", "Use it.")
      .into<&job::compression, &compression::activations, &input_section::enabled>();
  activations.shared("quantization_type", text, "symmetric", "Around zero, or not.")
      .one_of({"symmetric", "asymmetric"})
      .by_hand(grid_of<&compression::activations>());
  activations.shared("range_calibration", text, "dynamic", "The range: of each batch, or learned.")
      .one_of({"dynamic", "static"})
      .just("dynamic")
      .needs(capability::compression);
  activations.shared("schedule_offset", integer, "1000", "Updates before it begins.")
      .at_least(0)
      .into<&job::compression, &compression::activations, &input_section::schedule_offset>();
  activations.params("bits", integer, "none", "4 or 8.").at_least(4).at_most(8);
}

/// `method` of a section.
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

/// What all kinds of pruning have in common.
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
  sparse.shared("dense_ratio", number, "0.1", "snip_momentum: the share that stays.")
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

}  // namespace

void add_compression_keys(key_rows& t) {
  t.row("compression_training", section).means("Quantisation, pruning, layer reduction.");
  add_quantization(t);
  add_pruning(t);
  section_rows layers(t, "compression_training.layer_reduction", "A student of fewer layers.", capability::compression);
  layers.off("Make one.");
  layers("keep_number_layer", integer, "none", "Layers of the student.").at_least(1);
  layers("module_name_prefix", text, "none", "What the teacher's layers are called.");
  layers("teacher_layer", integers, "none", "Layers that are copied.").at_least(0);
  layers("other_module_name", texts, "none", "Other modules that are copied.");

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
