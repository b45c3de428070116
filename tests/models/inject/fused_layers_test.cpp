// Tests fused layers in a host's own torch::nn modules: equal values and gradients for blocks of several kinds, in
// every container that allows it, wrong policies found by the probe batch, and modules and weights that stay the
// host's.
#include "models/inject/inject.hpp"

#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/loss.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <optional>

#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(fused_layers)

using namespace troupe;
using namespace troupe::models;
using namespace troupe::tests;

namespace {

namespace nn = torch::nn;

constexpr int64_t width = 24, heads = 4, head_width = width / heads, inner = 40, vocabulary = 50;

at::Tensor heads_in(const at::Tensor& t) { return t.reshape({t.size(0), t.size(1), -1, head_width}).transpose(1, 2); }
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal) {
  const int64_t group = q.size(-1) / k.size(-1);
  const at::Tensor y = at::scaled_dot_product_attention(heads_in(q), heads_in(k).repeat_interleave(group, 1),
                                                        heads_in(v).repeat_interleave(group, 1), {}, 0.0, causal);
  return y.transpose(1, 2).reshape({q.size(0), q.size(1), -1});
}

/// A module that has only children; its owner calls them.
struct group_of : nn::Module {
  void add(const std::string& name, const nn::Linear& l) { register_module(name, l); }
};

struct gpt_block : replaceable {
  explicit gpt_block(double dropout = 0)
      : ln_1(register_module("ln_1", nn::LayerNorm(nn::LayerNormOptions({width}).eps(1e-3)))),
        attn(register_module("attn", std::make_shared<group_of>())),
        ln_2(register_module("ln_2", nn::LayerNorm(nn::LayerNormOptions({width})))),
        mlp(register_module("mlp", std::make_shared<group_of>())),
        drop(register_module("drop", nn::Dropout(dropout))) {
    attn->add("c_attn", c_attn);
    attn->add("c_proj", c_proj);
    mlp->add("c_fc", c_fc);
    mlp->add("c_proj", down);
  }
  at::Tensor forward(const at::Tensor& x) override {
    const auto parts = c_attn->forward(ln_1->forward(x)).chunk(3, -1);
    const at::Tensor y = x + drop->forward(c_proj->forward(attend(parts[0], parts[1], parts[2], true)));
    return y + down->forward(at::gelu(c_fc->forward(ln_2->forward(y)), "tanh"));
  }
  nn::LayerNorm ln_1;
  std::shared_ptr<group_of> attn;
  nn::LayerNorm ln_2;
  std::shared_ptr<group_of> mlp;
  nn::Dropout drop;
  nn::Linear c_attn{width, 3 * width}, c_proj{width, width}, c_fc{width, inner}, down{inner, width};
};

struct rms_norm : nn::Module {
  rms_norm() : weight(register_parameter("weight", at::rand({width}) + 0.5)) {}
  at::Tensor forward(const at::Tensor& x) const {
    return x * (x.square().mean(-1, /*keepdim=*/true) + 1e-5).rsqrt() * weight;
  }
  at::Tensor weight;
};

/// A block with Llama's names: RMS norms, two query heads for each key-value head, rotated halves, a gated MLP.
struct llama_block : nn::Module {
  llama_block()
      : input_layernorm(register_module("input_layernorm", std::make_shared<rms_norm>())),
        post_attention_layernorm(register_module("post_attention_layernorm", std::make_shared<rms_norm>())),
        self_attn(register_module("self_attn", std::make_shared<group_of>())),
        mlp(register_module("mlp", std::make_shared<group_of>())) {
    self_attn->add("q_proj", q);
    self_attn->add("k_proj", k);
    self_attn->add("v_proj", v);
    self_attn->add("o_proj", o);
    mlp->add("gate_proj", gate);
    mlp->add("up_proj", up);
    mlp->add("down_proj", down);
  }
  static nn::Linear plain(int64_t in, int64_t out) { return nn::Linear(nn::LinearOptions(in, out).bias(false)); }
  static at::Tensor turned(const at::Tensor& t) {
    const int64_t half = head_width / 2;
    const at::Tensor each = t.reshape({t.size(0), t.size(1), -1, head_width});
    const at::Tensor frequencies = at::pow(10000.0, at::arange(half, at::kFloat) * (-2.0 / head_width));
    const at::Tensor angles = at::arange(t.size(1), at::kFloat).unsqueeze(1) * frequencies;
    const at::Tensor c = angles.cos().unsqueeze(1), s = angles.sin().unsqueeze(1);
    const at::Tensor a = each.narrow(-1, 0, half), b = each.narrow(-1, half, half);
    return at::cat({a * c - b * s, b * c + a * s}, -1).reshape(t.sizes());
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor n = input_layernorm->forward(x);
    const at::Tensor y = x + o->forward(attend(turned(q->forward(n)), turned(k->forward(n)), v->forward(n), true));
    const at::Tensor m = post_attention_layernorm->forward(y);
    return y + down->forward(at::silu(gate->forward(m)) * up->forward(m));
  }
  std::shared_ptr<rms_norm> input_layernorm, post_attention_layernorm;
  std::shared_ptr<group_of> self_attn, mlp;
  nn::Linear q = plain(width, width), k = plain(width, width / 2), v = plain(width, width / 2), o = plain(width, width);
  nn::Linear gate = plain(width, inner), up = plain(width, inner), down = plain(inner, width);
};

/// A block with names of the host's own: norms after the sums, attention in both directions, an activation module.
struct two_way_block : nn::Module {
  two_way_block()
      : q(register_module("q", nn::Linear(width, width))),
        k(register_module("k", nn::Linear(width, width))),
        v(register_module("v", nn::Linear(width, width))),
        o(register_module("o", nn::Linear(width, width))),
        up(register_module("up", nn::Linear(width, inner))),
        act(register_module("act", nn::GELU())),
        down(register_module("down", nn::Linear(inner, width))),
        first(register_module("first", nn::LayerNorm(nn::LayerNormOptions({width})))),
        second(register_module("second", nn::LayerNorm(nn::LayerNormOptions({width})))) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y =
        first->forward(x + o->forward(attend(q->forward(x), k->forward(x), v->forward(x), /*causal=*/false)));
    return second->forward(y + down->forward(act->forward(up->forward(y))));
  }
  nn::Linear q, k, v, o, up;
  nn::GELU act;
  nn::Linear down;
  nn::LayerNorm first, second;
};

models::layer_policy two_way_policy() {
  using enum layer_role;
  return {.name = "two ways",
          .paths = {{query, "q"},
                    {key, "k"},
                    {value, "v"},
                    {output, "o"},
                    {attention_norm, "first"},
                    {up, "up"},
                    {down, "down"},
                    {mlp_norm, "second"}},
          .order = norm_order::after,
          .causal = false,
          .heads = heads};
}

models::layer_policy named(const char* name) {
  models::layer_policy out = *check_ok(layer_policy_named(name));
  out.heads = heads;
  return out;
}

nn::Sequential gpt() {
  return nn::Sequential(nn::Embedding(vocabulary, width), std::make_shared<gpt_block>(), std::make_shared<gpt_block>(),
                        nn::LayerNorm(nn::LayerNormOptions({width})), nn::Linear(width, vocabulary));
}

at::Tensor some_tokens() { return at::randint(vocabulary, {3, 7}, at::kLong); }

struct result {
  at::Tensor output;
  std::vector<at::Tensor> gradients;
};

result run(nn::Sequential& model, const at::Tensor& x) {
  model->zero_grad();
  result out{model->forward(x), {}};
  (out.output * at::arange(out.output.numel(), at::kFloat).sin().view(out.output.sizes())).sum().backward();
  for (const at::Tensor& p : model->parameters()) out.gradients.push_back(p.grad().clone());
  return out;
}

double off(const at::Tensor& got, const at::Tensor& wanted) {
  return (got - wanted).abs().max().item<double>() / wanted.abs().max().item<double>();
}

void check(const result& got, const result& wanted) {
  BOOST_TEST(off(got.output, wanted.output) <= 1e-5);
  BOOST_REQUIRE_EQUAL(got.gradients.size(), wanted.gradients.size());
  double most = 0;
  for (const at::Tensor& g : wanted.gradients) most = std::max(most, g.abs().max().item<double>());
  for (size_t i = 0; i < got.gradients.size(); ++i)
    BOOST_TEST((got.gradients[i] - wanted.gradients[i]).abs().max().item<double>() <= 1e-5 * most, "gradient " << i);
}

size_t replaced_in(const models::own_layers& own) {
  return static_cast<size_t>(std::ranges::count_if(own.layers(), [](const auto& l) { return l.why.empty(); }));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_gpt_in_a_sequential_computes_the_same_with_every_layer_replaced) {
  at::manual_seed(7);
  nn::Sequential model = gpt();
  const at::Tensor x = some_tokens(), other = some_tokens();
  const result whole = run(model, other);
  const auto own = check_ok(models::inject(model.ptr(), named("HFGPT2LayerPolicy"), [&] { return model->forward(x); }));
  BOOST_TEST(replaced_in(*own) == own->layers().size(), text_of(own->layers()));
  const std::string text = text_of(own->layers());
  for (const char* line : {"Troupe's embedding", "block '1' (HFGPT2LayerPolicy)", "norm with products '3'"})
    BOOST_TEST(has(text, line), text);
  check(run(model, other), whole);
  const at::NoGradGuard no_grad;
  BOOST_TEST(off(model->forward(other), whole.output) <= 1e-5);
}

BOOST_AUTO_TEST_CASE(blocks_of_other_kinds_compute_the_same) {
  at::manual_seed(7);
  nn::Sequential llama(std::make_shared<llama_block>()), two_ways(std::make_shared<two_way_block>());
  models::layer_policy grouped = named("llama");
  grouped.kv_heads = heads / 2;
  const at::Tensor x = at::randn({2, 9, width}), longer = at::randn({2, 12, width});
  for (const auto& [model, policy] : {std::pair{&llama, grouped}, std::pair{&two_ways, two_way_policy()}}) {
    const result whole = run(*model, longer);
    const auto own = check_ok(models::inject(model->ptr(), policy, [&, m = model] { return (*m)->forward(x); }));
    BOOST_TEST(replaced_in(*own) == own->layers().size(), text_of(own->layers()));
    check(run(*model, longer), whole);
  }
}

BOOST_AUTO_TEST_CASE(a_wrong_policy_is_found_and_the_first_module_that_differs_is_named) {
  at::manual_seed(7);
  nn::Sequential model = gpt();
  const at::Tensor x = some_tokens();
  const auto before = model[1];
  const result whole = run(model, x);
  std::vector<models::layer_policy> wrong(4, named("HFGPT2LayerPolicy"));
  wrong[0].act = mlp_activation::silu;
  wrong[1].causal = false;
  wrong[2].order = norm_order::parallel;
  wrong[3].heads = heads / 2;
  for (const models::layer_policy& policy : wrong) {
    check_failed(models::inject(model.ptr(), policy, [&] { return model->forward(x); }),
                 "injection: '1' differs from the host's: ");
    BOOST_TEST(model[1].get() == before.get());
    BOOST_TEST(at::equal(run(model, x).output, whole.output));
  }
}

BOOST_AUTO_TEST_CASE(a_policy_that_matches_nothing_is_refused_with_the_nearest) {
  nn::Sequential model = gpt();
  const at::Tensor x = some_tokens();
  const auto probe = [&] { return model->forward(x); };
  const auto refused = models::inject(model.ptr(), named("HFBertLayerPolicy"), probe);
  check_failed(refused, "injection: policy 'HFBertLayerPolicy' matches no module");
  check_failed(refused, "policy 'HFGPT2LayerPolicy' matches 2 modules");
  models::layer_policy almost = named("HFGPT2LayerPolicy");
  for (role_path& p : almost.paths)
    if (p.path == "mlp.c_fc") p.path = "mlp.fc";
  check_failed(models::inject(model.ptr(), almost, probe), "the nearest is '1': ");
  check_failed(models::inject(model.ptr(), {.name = "a", .refused = "it is one"}, probe), "policy 'a': it is one");
  model->to(at::kBFloat16);
  check_failed(models::inject(model.ptr(), named("gpt2"), probe), "wanted fp32 or fp64");
}

BOOST_AUTO_TEST_CASE(revert_puts_the_same_objects_back_and_weights_are_shared_all_along) {
  at::manual_seed(7);
  nn::Sequential model = gpt();
  std::vector<nn::Module*> objects;
  for (size_t i = 0; i < model->size(); ++i) objects.push_back(model[i].get());
  const at::Tensor x = some_tokens();
  auto own = check_ok(models::inject(model.ptr(), named("gpt2"), [&] { return model->forward(x); }));
  BOOST_TEST(model[1].get() != objects[1]);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  const at::Tensor first = run(model, x).output;
  optimizer.step();
  const at::Tensor stepped = run(model, x).output;
  BOOST_TEST(!at::equal(first, stepped));
  own->revert();
  for (size_t i = 0; i < model->size(); ++i) BOOST_TEST(model[i].get() == objects[i]);
  BOOST_TEST(off(run(model, x).output, stepped) <= 1e-5);
  own->sit();
  BOOST_TEST(at::equal(run(model, x).output, stepped));
}

BOOST_AUTO_TEST_CASE(module_lists_of_virtual_modules_and_any_modules_are_replaced) {
  at::manual_seed(7);
  struct listing_model : nn::Module {
    listing_model() {
      for (int i = 0; i < 2; ++i) blocks->push_back(std::make_shared<gpt_block>());
      register_module("blocks", blocks);
      register_module("head", head.ptr());
    }
    at::Tensor forward(at::Tensor x) {
      for (const auto& block : *blocks) x = block->as<replaceable>()->forward(x);
      return head.forward(x);
    }
    nn::ModuleList blocks;
    nn::AnyModule head{nn::Linear(width, vocabulary)};
  };
  const auto model = std::make_shared<listing_model>();
  nn::AnyModule loss{nn::CrossEntropyLoss()};
  const at::Tensor x = at::randn({2, 5, width}), targets = at::randint(vocabulary, {10}, at::kLong);
  const auto probe = [&] { return loss.forward(model->forward(x).reshape({10, vocabulary}), targets); };
  const at::Tensor wanted = probe();
  auto own = check_ok(models::inject(model, named("gpt2"), probe, {{"loss", &loss}, {"head", &model->head}}));
  const std::string text = text_of(own->layers());
  BOOST_TEST(has(text, "block 'blocks.1' (HFGPT2LayerPolicy)"), text);
  BOOST_TEST(has(text, "Troupe's cross-entropy"), text);
  BOOST_TEST(std::abs((probe() - wanted).item<double>()) <= 1e-5);
  const at::Tensor ignored = targets.clone().index_fill_(0, at::tensor({1, 4}, at::kLong), -100);
  const at::Tensor scores = at::randn({10, vocabulary});
  BOOST_TEST(at::equal(loss.forward(scores, ignored), torch::nn::functional::cross_entropy(scores, ignored)));
  own->revert();
  BOOST_TEST((std::dynamic_pointer_cast<nn::CrossEntropyLossImpl>(loss.ptr()) != nullptr));
  BOOST_TEST((std::dynamic_pointer_cast<gpt_block>((*model->blocks)[0]) != nullptr));
  BOOST_TEST(probe().item<double>() == wanted.item<double>());
}

BOOST_AUTO_TEST_CASE(mlps_and_norms_with_products_of_a_sequential_are_replaced_without_a_row) {
  at::manual_seed(7);
  nn::Sequential model(nn::LayerNorm(nn::LayerNormOptions({width})), nn::Linear(width, inner), nn::SiLU(),
                       nn::Linear(inner, width), nn::Linear(width, inner),
                       nn::GELU(nn::GELUOptions().approximate("tanh")), nn::Linear(inner, width),
                       nn::LayerNorm(nn::LayerNormOptions({width})),
                       nn::Linear(nn::LinearOptions(width, 8).bias(false)), nn::Tanh(), nn::Linear(8, 8));
  const at::Tensor x = at::randn({11, width});
  const result whole = run(model, x);
  const auto own = check_ok(models::inject(model.ptr(), {.name = "types"}, [&] { return model->forward(x); }));
  check(run(model, x), whole);
  const std::string text = text_of(own->layers());
  for (const char* line : {"0   MLP '0'\n", "6   MLP '4'\n", "8   norm with products '7'\n",
                           "10  torch's: Troupe has no separate kernel for it\n"})
    BOOST_TEST(has(text, line), text);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_replaced_stays_and_says_why) {
  at::manual_seed(7);
  struct holder : nn::Module {
    holder() : block(register_module("block", std::make_shared<gpt_block>())) { register_module("layers", layers); }
    at::Tensor forward(const at::Tensor& x) { return layers->forward(block->forward(x)); }
    std::shared_ptr<gpt_block> block;
    nn::Sequential layers =
        nn::Sequential(std::make_shared<gpt_block>(0.5), std::make_shared<gpt_block>(), std::make_shared<gpt_block>());
  };
  const auto model = std::make_shared<holder>();
  models::layer_policy policy = named("gpt2");
  policy.leave = {"layers.2"};
  const at::Tensor x = at::randn({2, 5, width});
  auto own = check_ok(models::inject(model, policy, [&] { return model->forward(x); }));
  const auto why = [&](const std::string& path) {
    for (const auto& l : own->layers())
      if (l.path == path) return l.why;
    return std::string("not listed");
  };
  BOOST_TEST(why("block") == "its module calls it directly, not through a Sequential");
  BOOST_TEST(why("layers.0") == "'drop' drops with probability 0.5, whose random numbers would differ");
  BOOST_TEST(why("layers.1.attn.c_attn").empty());
  BOOST_TEST(why("layers.2.attn.c_attn") == "the policy leaves it");
  own->revert();
  policy.heads = 0;
  policy.leave = {};
  const auto without = check_ok(models::inject(model, policy, [&] { return model->forward(x); }));
  BOOST_TEST(has(text_of(without->layers()), "torch's: the policy says no number of heads (heads)"));
}

BOOST_AUTO_TEST_CASE(a_second_backward_and_weights_changed_before_backward_throw) {
  at::manual_seed(7);
  nn::Sequential model = gpt();
  const at::Tensor x = some_tokens();
  const auto own = check_ok(models::inject(model.ptr(), named("gpt2"), [&] { return model->forward(x); }));
  at::Tensor y = model->forward(x).sum();
  y.backward({}, /*retain_graph=*/true);
  BOOST_CHECK_THROW(y.backward(), std::exception);
  y = model->forward(x).sum();
  {
    const at::NoGradGuard no_grad;
    model->named_parameters()["1.ln_1.weight"].mul_(2);
  }
  BOOST_CHECK_THROW(y.backward(), std::exception);
  BOOST_CHECK_THROW(model->forward(x.to(at::kFloat)), std::exception);
}

BOOST_AUTO_TEST_CASE(a_gradient_of_gradients_and_autocast_throw) {
  at::manual_seed(7);
  nn::Sequential norm(nn::LayerNorm(nn::LayerNormOptions({width})), nn::Tanh());
  nn::Sequential words(nn::Embedding(vocabulary, width), nn::Tanh()), block(std::make_shared<gpt_block>());
  nn::AnyModule loss{nn::CrossEntropyLoss()};
  const at::Tensor x = at::randn({3, 7, width}), ids = some_tokens(), targets = at::randint(width, {21}, at::kLong);
  const auto check_throws = [](const std::shared_ptr<nn::Module>& model, const models::layer_policy& policy,
                               const auto& forward, const std::vector<models::own_layers::slot>& slots = {}) {
    const auto own = check_ok(models::inject(model, policy, forward, slots));
    BOOST_TEST(replaced_in(*own) > 0U);
    const at::Tensor y = forward().sum();
    BOOST_CHECK_THROW(y.backward({}, std::nullopt, /*create_graph=*/true), std::exception);
  };
  check_throws(norm.ptr(), {.name = "types"}, [&] { return norm->forward(x); });
  check_throws(words.ptr(), {.name = "types"}, [&] { return words->forward(ids); });
  check_throws(block.ptr(), named("gpt2"), [&] { return block->forward(x); });
  const auto scores = at::randn({21, width}).requires_grad_(true);
  nn::Tanh tanh;
  check_throws(tanh.ptr(), {.name = "types"}, [&] { return loss.forward(scores, targets); }, {{"loss", &loss}});
  const auto own = check_ok(models::inject(block.ptr(), named("gpt2"), [&] { return block->forward(x); }));
  c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::AutocastCPU, false);
  BOOST_CHECK_THROW(block->forward(x), std::exception);
  c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::AutocastCPU, true);
  BOOST_CHECK_NO_THROW(block->forward(x));
}

BOOST_AUTO_TEST_CASE(a_probe_that_does_not_show_a_module_is_refused) {
  at::manual_seed(7);
  nn::Sequential model = gpt();
  nn::AnyModule loss{nn::CrossEntropyLoss()}, none;
  const at::Tensor x = some_tokens(), first = x.narrow(1, 0, 1);
  const auto probe = [&] { return model->forward(x); };
  check_failed(models::inject(model.ptr(), named("gpt2"), probe, {{"loss", &loss}}),
               "injection: the probe does not call 'loss', which therefore cannot be compared");
  check_failed(models::inject(model.ptr(), named("gpt2"), [&] { return model->forward(first); }),
               "injection: the probe calls '1' with one token a sample");
  check_failed(models::inject(model.ptr(), named("gpt2"), probe, {{"none", &none}}),
               "injection: slot 'none': wanted an AnyModule that holds a module, got none");
  check_failed(models::inject(nullptr, named("gpt2"), probe), "injection: wanted a module, got none");
}

BOOST_AUTO_TEST_CASE(weights_of_zeros_and_a_wrong_epsilon_hide_no_wrong_policy) {
  at::manual_seed(7);
  const auto zeros = std::make_shared<two_way_block>();
  {
    const at::NoGradGuard no_grad;
    zeros->q->weight.zero_();
    zeros->q->bias.zero_();
  }
  const void* memory = zeros->q->weight.data_ptr();
  nn::Sequential model(zeros), llama(std::make_shared<llama_block>());
  const at::Tensor x = at::randn({2, 9, width});
  models::layer_policy wrong = two_way_policy();
  wrong.heads = heads / 2;
  check_failed(models::inject(model.ptr(), wrong, [&] { return model->forward(x); }), "'0' differs from the host's: ");
  const auto own = check_ok(models::inject(model.ptr(), two_way_policy(), [&] { return model->forward(x); }));
  BOOST_TEST(own->blocks() == 1U);
  BOOST_TEST(zeros->q->weight.data_ptr() == memory);
  BOOST_TEST(!zeros->q->weight.any().item<bool>());
  BOOST_TEST(zeros->q->weight.requires_grad());
  wrong = named("llama");
  wrong.kv_heads = heads / 2;
  wrong.epsilon = 1e-6;
  check_failed(models::inject(llama.ptr(), wrong, [&] { return llama->forward(x); }), "differs from the host's: ");
}

BOOST_AUTO_TEST_CASE(dropout_of_a_hosts_own_is_found_in_a_model_that_evaluates) {
  at::manual_seed(7);
  struct dropping_block : gpt_block {
    at::Tensor forward(const at::Tensor& x) override { return at::dropout(gpt_block::forward(x), 0.1, is_training()); }
  };
  struct alpha_block : gpt_block {
    at::Tensor forward(const at::Tensor& x) override { return alpha->forward(gpt_block::forward(x)); }
    nn::AlphaDropout alpha = register_module("alpha", nn::AlphaDropout(0.1));
  };
  nn::Sequential model(std::make_shared<dropping_block>()), alpha(std::make_shared<alpha_block>());
  const at::Tensor x = at::randn({2, 5, width});
  model->eval();
  alpha->eval();
  check_failed(models::inject(model.ptr(), named("gpt2"), [&] { return model->forward(x); }),
               "'0' differs from the host's: ");
  BOOST_TEST(!model[0]->is_training());
  const auto own = check_ok(models::inject(alpha.ptr(), named("gpt2"), [&] { return alpha->forward(x); }));
  BOOST_TEST(has(text_of(own->layers()), "'alpha' drops with probability 0.1"), text_of(own->layers()));
}

BOOST_AUTO_TEST_CASE(frozen_weights_strided_inputs_and_single_samples_have_the_same_gradients) {
  at::manual_seed(7);
  nn::Sequential model(std::make_shared<gpt_block>());
  for (const auto& item : model->named_parameters()) item.value().requires_grad_(has(item.key(), "mlp"));
  const auto gradients = [&](const at::Tensor& x) {
    model->zero_grad();
    const at::Tensor own = x.detach().requires_grad_(true), y = model->forward(own);
    (y * at::arange(y.numel(), at::kFloat).sin().view(y.sizes())).sum().backward();
    std::vector<at::Tensor> out{own.grad()};
    for (const at::Tensor& p : model->parameters()) {
      BOOST_TEST(p.grad().defined() == p.requires_grad());
      if (p.requires_grad()) out.push_back(p.grad().clone());
    }
    return out;
  };
  const at::Tensor x = at::randn({2, width, 9}).transpose(1, 2), one = x.narrow(0, 1, 1).narrow(1, 2, 5);
  const auto wanted = gradients(x), wanted_of_one = gradients(one);
  const auto own = check_ok(models::inject(model.ptr(), named("gpt2"), [&] { return model->forward(x); }));
  const auto got = gradients(x), got_of_one = gradients(one);
  for (size_t i = 0; i < wanted.size(); ++i) {
    BOOST_TEST(off(got[i], wanted[i]) <= 1e-5, "gradient " << i);
    BOOST_TEST(off(got_of_one[i], wanted_of_one[i]) <= 1e-5, "gradient of one sample " << i);
  }
}

BOOST_AUTO_TEST_SUITE_END()
