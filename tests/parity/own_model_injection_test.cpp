// Tests DeepSpeed's configuration keys that shard a host program's modules over tensor ranks without a policy of the
// host: the heuristic, names of row-parallel layers, a head sharded over the vocabulary, Troupe's layers in place of
// torch's. Losses and weights equal those of the unsharded modules.
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>

#include <filesystem>
#include <fstream>

#include "models/inject/layer_policy.hpp"
#include "tests/parity/own_blocks.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(own_model_injection)

using namespace troupe;
using namespace troupe::tests;

namespace {

/// Contains attention and MLP in one unit, like the blocks of published models.
struct whole_block : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return mlp->forward(attention->forward(x)); }
  std::shared_ptr<host_attention> attention = register_module("attention", std::make_shared<host_attention>());
  std::shared_ptr<host_mlp> mlp = register_module("mlp", std::make_shared<host_mlp>());
};

/// Returns the host's modules without an injection policy; one unit is a Sequential with a residual connection.
actors::host_model plain(bool by_factories = false, bool with_block = true) {
  const auto make = [by_factories, with_block] {
    using models::unit;
    namespace nn = torch::nn;
    auto out = host_blocks(0.2, 1);
    const auto in_order = [] {
      return nn::Sequential(nn::LayerNorm(nn::LayerNormOptions({block_width})), nn::Linear(block_width, block_inner),
                            nn::Tanh(), nn::Linear(block_inner, block_width));
    };
    const auto residual = [](nn::SequentialImpl& s, const at::Tensor& x) { return x + s.forward(x); };
    auto& units = out.units;
    units.insert(units.begin() + 3,
                 by_factories ? unit("rest", in_order, residual) : unit("rest", in_order(), residual));
    if (with_block)
      units.insert(units.begin() + 3, by_factories ? unit("block", [] { return std::make_shared<whole_block>(); })
                                                   : unit("block", std::make_shared<whole_block>()));
    return out;
  };
  return {make, &block_batch, &block_batch};
}

const settings common = {"gradient_accumulation_steps=2", "gradient_order=per_step"};
const settings autotp = {"tensor_parallel.autotp_size=2"};
const settings names = ranks(2) + settings{"tensor_parallel.injection_policy_tuple=[attention 0.proj, down, '3']"};

std::string refusal(const settings& set, const actors::host_model& model = plain()) {
  const auto s = try_open_own(common + set, model);
  return s ? "accepted" : s.error().text;
}

void check_has(const std::string& text, const std::string& part) {
  BOOST_TEST(text.find(part) != std::string::npos, text);
}

actors::host_model without_block() { return plain(/*by_factories=*/true, /*with_block=*/false); }

/// Returns the log lines of a session, with repeated spaces removed.
std::string lines_of(const settings& set, const actors::host_model& model) {
  std::string out;
  actors::session_hooks hooks;
  hooks.on_log = [&](const std::string& line) {
    for (const char c : line)
      if (c != ' ' || !out.ends_with(' ')) out += c;
    out += '\n';
  };
  auto s = actors::session::open(
      {.config = own_config(common + set), .hooks = std::move(hooks), .model = actors::own_model(model)});
  BOOST_TEST_REQUIRE(s.has_value(), (s ? std::string() : s.error().text));
  step_of(**s);
  return out;
}

void check_everywhere(const settings& cut, const actors::host_model& model) {
  const outcome whole = train_own(model, common);
  const outcome reference = train_own(model, common + cut + stage(0));
  check_uncut(reference, whole, 1e-5);
  for (const auto& other : {stage(3), stage(3) + settings{"parallel.pipeline=2", "pipeline.schedule=zb_h1"},
                            stage(1) + settings{"parallel.pipeline=2", "pipeline.schedule=1f1b"}})
    BOOST_TEST_CONTEXT(text_of(common + cut + other)) {
      check_same(train_own(model, common + cut + other).trained, reference.trained);
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(autotp_size_cuts_modules_without_a_policy_and_computes_the_same) {
  check_everywhere(autotp, plain());
  check_everywhere(autotp, plain(true));
  const std::string text = lines_of(autotp, plain());
  for (const char* line :
       {"attention 0.qkv column 72: 36, 36 (the heuristic)\n", "attention 0.proj row 24: 12, 12 (the heuristic)\n",
        "block.attention.qkv whole (the heuristic cuts only layers before the unit's last row layer)\n",
        "block.mlp.down row 38: 19, 19 (the heuristic)\n", "rest.3 row 38: 19, 19 (the heuristic)\n",
        "head whole (the heuristic finds no row layer)\n"})
    check_has(text, line);
}

BOOST_AUTO_TEST_CASE(injection_policy_tuple_names_row_layers) {
  check_everywhere(names, without_block());
  // A policy in the configuration replaces the host's own policy and the heuristic.
  auto with_policy = without_block();
  with_policy.make = [make = with_policy.make] { return models::inject(make(), {.heuristic = true}); };
  check_same(train_own(with_policy, common + names).trained, train_own(without_block(), common + names).trained);
  const std::string key = "tensor_parallel.injection_policy_tuple=";
  check_has(refusal(ranks(2) + settings{key + "[down, gate]"}, without_block()),
            "injection: wanted a linear layer whose name ends in 'gate', a row layer, found none");
  check_has(refusal(ranks(2) + settings{key + "[up]"}), "unit 'mlp 0', cut over 2 ranks");
  check_has(refusal(ranks(2) + settings{key + "norm"}), "wanted a linear layer whose name ends in 'norm'");
  check_has(refusal(ranks(2) + settings{key + "[proj, down]"}), "such as attention and MLP, a separate unit");
  BOOST_TEST(refusal({key + "[gate]"}) == "accepted");  // with one tensor rank, no layer is cut
}

BOOST_AUTO_TEST_CASE(the_head_is_cut_by_the_vocabulary_on_request) {
  const settings head = {"tensor_parallel.vocab_parallel_lm_head=true"};
  check_everywhere(autotp + head, plain());
  auto with_loss = without_block();
  with_loss.make = [make = with_loss.make] {
    auto model = make();
    model.loss = models::vocabulary_cross_entropy();
    return model;
  };
  check_everywhere(names + head, with_loss);
  check_has(lines_of(autotp + head, plain()), "head vocabulary 50: 25, 25 (rule 'head");
  auto with_policy = plain();
  with_policy.make = [make = with_policy.make] {
    return models::inject(make(), {.rules = {{"words|head", core::tp_style::vocabulary}}, .heuristic = true});
  };
  const std::string text = lines_of(ranks(2) + settings{"tensor_parallel.vocab_parallel_lm_head=false"}, with_policy);
  check_has(text, "words vocabulary 50: 25, 25");
  check_has(text, "head whole (rule 'head");
}

BOOST_AUTO_TEST_CASE(norms_of_ours_replace_a_hosts_with_replace_with_kernel_inject) {
  const settings ours = {"tensor_parallel.replace_with_kernel_inject=true"};
  const outcome whole = train_own(plain(), common);
  for (const auto& cut : {ours, ours + autotp, ours + autotp + stage(3)})
    BOOST_TEST_CONTEXT(text_of(cut)) check_uncut(train_own(plain(), common + cut), whole, 1e-5);
  check_everywhere(ours + autotp, plain(true));
  const std::string text = lines_of(ours, plain());
  for (const char* line :
       {"rest.0 whole (a norm reads whole rows; Troupe's kernel computes it)\n",
        "norm whole (a norm reads whole rows; Troupe's kernel computes it)\n",
        "mlp 0.norm whole (a norm reads whole rows; torch computes it: its module calls it directly, not through a "
        "Sequential)\n",
        "rest.1 whole (no rule matches it; torch computes it: Troupe has no separate kernel for it)\n"})
    check_has(text, line);
}

/// Returns the row of `host_attention` and `host_mlp`.
models::layer_policy block_row() {
  using enum models::layer_role;
  return {.name = "mine",
          .paths = {{attention_norm, "norm"},
                    {packed_qkv, "qkv"},
                    {output, "proj"},
                    {mlp_norm, "norm"},
                    {up, "up"},
                    {down, "down"}},
          .act = models::mlp_activation::gelu_exact,
          .heads = block_heads};
}

/// Returns plain() with a policy by which Troupe's layers compute the blocks of `row`.
actors::host_model with_row(const models::layer_policy& row, bool by_factories = false) {
  auto out = plain(by_factories);
  out.make = [make = out.make, row] {
    return models::inject(
        make(), {.heuristic = true, .own_layers = true, .blocks = std::make_shared<const models::layer_policy>(row)});
  };
  return out;
}

BOOST_AUTO_TEST_CASE(fused_blocks_of_a_row_replace_those_of_units_at_every_stage_and_over_tensor_ranks) {
  const auto model = with_row(block_row());
  const outcome whole = train_own(plain(), common), one = train_own(model, common + stage(0));
  check_uncut(one, whole, 1e-5);
  check_same(train_own(model, common + stage(3)).trained, one.trained);
  check_everywhere(autotp, model);
  check_everywhere(autotp, with_row(block_row(), true));
  const std::string text = lines_of({}, model);
  for (const char* line : {"attention 0.qkv whole (the heuristic; Troupe's kernel computes it)\n",
                           "rest.1 whole (the heuristic; Troupe's kernel computes it)\n",
                           "words whole (no rule matches it; Troupe's kernel computes it)\n"})
    check_has(text, line);
}

BOOST_AUTO_TEST_CASE(a_wrong_row_is_found_by_the_first_batch) {
  auto wrong = block_row();
  wrong.causal = false;
  const std::string text = refusal({}, with_row(wrong));
  check_has(text, "own model: unit 'attention 0', computed by Troupe's layers (mine): its output differs");
  wrong = *models::layer_policy_named("HFBertLayerPolicy");
  check_has(refusal({}, with_row(wrong)), "policy 'HFBertLayerPolicy' matches no module of any unit");
  wrong = {.name = "mine", .refused = "its layers are others"};
  check_has(refusal({}, with_row(wrong)), "policy 'mine': its layers are others");
}

BOOST_AUTO_TEST_CASE(a_model_that_the_heuristic_cannot_cut_is_refused_with_every_layers_reason) {
  auto model = plain();
  model.make = [] {
    using models::unit;
    return models::module_model{{unit("words", torch::nn::Embedding(block_vocabulary, block_width)),
                                 unit("head", torch::nn::Linear(block_width, block_vocabulary))},
                                host_blocks().loss};
  };
  const std::string text = refusal(autotp, model);
  check_has(text, "injection: wanted a layer to cut over 2 ranks, found none:");
  check_has(text, "words  whole (no rule matches it)");
  check_has(text, "head   whole (the heuristic finds no row layer)");
}

BOOST_AUTO_TEST_CASE(the_report_lists_the_layers) {
  const scratch_folder folder;
  std::filesystem::create_directories(folder / "run");
  const settings to = {"output=" + (folder / "run").string(), "telemetry.report=true"};
  auto s = open_own(common + autotp + to, plain());
  BOOST_TEST_REQUIRE(s->open_records().has_value());
  step_of(*s);
  const auto records = s->finish();
  BOOST_TEST_REQUIRE(!records.report_file.empty());
  std::ifstream file(records.report_file);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  check_has(page, "<h2>Layers of the host's modules</h2>");
  check_has(page, "row 38: 19, 19 (the heuristic)");
}

BOOST_AUTO_TEST_SUITE_END()
