// Tests the rows that say which module of a published block has which role, and the tensor-parallel rules that follow
// from a row: names, refusals, and sums over ranks that equal the whole module.
#include "models/inject/layer_policy.hpp"

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include <boost/test/unit_test.hpp>
#include <set>
#include <string>

#include "models/inject/injection.hpp"
#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(layer_policy)

using namespace troupe;
using namespace troupe::models;
using namespace troupe::tests;

namespace {

namespace nn = torch::nn;

constexpr int64_t width = 24, head_width = 4;

/// The attention of a block with GPT-2's names; the number of heads is that of the projection's outputs.
struct packed_attention : nn::Module {
  packed_attention(int64_t heads, int64_t kv_heads)
      : group(heads / kv_heads),
        c_attn(register_module("c_attn", nn::Linear(width, (heads + 2 * kv_heads) * head_width))),
        c_proj(register_module("c_proj", nn::Linear(heads * head_width, width))) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor all = c_attn->forward(x);
    const int64_t kv = all.size(-1) / head_width / (group + 2), heads = kv * group;
    const auto part = [&](int64_t first, int64_t count) {
      return all.narrow(-1, first * head_width, count * head_width)
          .reshape({x.size(0), x.size(1), count, head_width})
          .transpose(1, 2);
    };
    const at::Tensor k = part(heads, kv).repeat_interleave(group, 1);
    const at::Tensor v = part(heads + kv, kv).repeat_interleave(group, 1);
    const at::Tensor mixed = at::scaled_dot_product_attention(part(0, heads), k, v, {}, 0.0, true);
    return c_proj->forward(mixed.transpose(1, 2).reshape({x.size(0), x.size(1), -1}));
  }
  int64_t group;
  nn::Linear c_attn, c_proj;
};

struct attention_unit : nn::Module {
  attention_unit(int64_t heads, int64_t kv_heads)
      : attn(register_module("attn", std::make_shared<packed_attention>(heads, kv_heads))) {}
  at::Tensor forward(const at::Tensor& x) { return x + attn->forward(x); }
  std::shared_ptr<packed_attention> attn;
};

}  // namespace

BOOST_AUTO_TEST_CASE(rows_have_deepspeeds_names_and_autotps_families) {
  std::set<std::string> names;
  for (const models::layer_policy& row : layer_policies()) {
    BOOST_TEST_CONTEXT(row.name) {
      BOOST_TEST(names.insert(row.name).second);
      BOOST_TEST(row.paths.empty() == !row.refused.empty());
      for (const std::string& family : row.families) BOOST_TEST(names.insert(family).second, family);
    }
  }
  for (const char* wanted : {"HFBertLayerPolicy",
                             "HFDistilBertLayerPolicy",
                             "HFGPT2LayerPolicy",
                             "HFGPTNEOLayerPolicy",
                             "HFGPTJLayerPolicy",
                             "GPTNEOXLayerPolicy",
                             "MegatronLayerPolicy",
                             "HFOPTLayerPolicy",
                             "BLOOMLayerPolicy",
                             "LLAMALayerPolicy",
                             "LLAMA2LayerPolicy",
                             "InternLMLayerPolicy",
                             "HFCLIPLayerPolicy",
                             "MistralPolicy",
                             "QwenPolicy",
                             "Qwen2Policy",
                             "PhiPolicy",
                             "Phi3Policy",
                             "FalconPolicy",
                             "qwen3",
                             "codegen",
                             "llama2",
                             "gpt-neox",
                             "starcode",
                             "baichuan"})
    BOOST_TEST(layer_policy_named(wanted).has_value(), wanted);
  BOOST_TEST(check_ok(layer_policy_named("mistral"))->name == "MistralPolicy");
}

BOOST_AUTO_TEST_CASE(refused_rows_say_why_and_unknown_names_the_nearest) {
  check_failed(layer_policy_named("UNetPolicy"), "injection: policy 'UNetPolicy': diffusion models are made of conv");
  check_failed(layer_policy_named("VAEPolicy"), "policy 'VAEPolicy': diffusion models");
  check_failed(layer_policy_named("MixtralPolicy"), "policy 'MixtralPolicy': its MLP is divided into experts");
  check_failed(layer_policy_named("HFGPT2Policy"),
               "wanted the name of a policy, got 'HFGPT2Policy'; the nearest one is 'HFGPT2LayerPolicy'");
  check_failed(layer_policy_of_preset("deepseek_v2"), "wanted a preset of a model without experts, got deepseek_v2");
  check_failed(tensor_rules(*check_ok(layer_policy_named("falcon"))), "packed in an order that no rule describes");
}

BOOST_AUTO_TEST_CASE(the_rules_of_a_row_cut_packed_heads_so_that_ranks_add_up_to_the_whole) {
  at::manual_seed(7);
  for (const auto& [heads, kv_heads] : {std::pair{6, 6}, std::pair{6, 3}}) {
    models::layer_policy gpt2 = *check_ok(layer_policy_named("HFGPT2LayerPolicy"));
    gpt2.heads = static_cast<uint32_t>(heads);
    gpt2.kv_heads = static_cast<uint32_t>(kv_heads);
    const auto unit = std::make_shared<attention_unit>(heads, kv_heads);
    injection_policy policy;
    const auto rules = check_ok(tensor_rules(gpt2));
    for (const injection_rule& rule : *rules)
      if (rule.heads > 0) policy.rules.push_back(rule);  // the unit has no MLP
    const at::Tensor x = at::randn({2, 5, width}), whole = unit->forward(x);
    for (const uint32_t degree : {2U, 3U}) {
      auto cut = check_ok(models::injection::make(unit, "block 0", policy, degree));
      BOOST_TEST_REQUIRE(cut->cuts());
      at::Tensor sum = at::zeros_like(whole);
      for (uint32_t c = 0; c < degree; ++c) {
        cut->sit(c);
        sum = sum + unit->forward(x) * share_of(c, degree);
      }
      cut->revert();
      BOOST_TEST((sum - whole).abs().max().item<double>() <= 1e-5 * whole.abs().max().item<double>());
    }
  }
}

BOOST_AUTO_TEST_CASE(proportions_that_do_not_divide_the_outputs_are_refused) {
  const auto unit = std::make_shared<attention_unit>(6, 6);
  const injection_policy policy{.rules = {{R"(unit\.attn\.c_attn)", core::tp_style::column, {}, 0, {5, 2}},
                                          {R"(unit\.attn\.c_proj)", core::tp_style::row}}};
  check_failed(models::injection::make(unit, "unit", policy, 2), "wanted parts that sum to the 72 outputs");
}

BOOST_AUTO_TEST_SUITE_END()
