#include "tests/parity/torch_loop.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <optional>

namespace troupe::tests {

struct torch_loop::parts {
  struct states {
    std::vector<at::Tensor> hidden, maps;
  };
  torch_loop_options o;
  std::map<std::string, at::Tensor> weights, first, second;
  std::map<std::string, at::Tensor> kept, kept_rows;  // masks by linear layer: of shape (in, out), and of shape (out)
  int64_t steps = 0;

  at::Tensor w(const std::string& name) const {
    return weights.at("transformer." + name).to(o.type == core::dtype::bf16 ? at::kBFloat16 : at::kFloat);
  }
  at::Tensor norm(const at::Tensor& x, const std::string& name) const {
    return at::layer_norm(x, {o.width}, w(name + ".weight"), w(name + ".bias"), 1e-5);
  }
  at::Tensor linear(const at::Tensor& x, const std::string& name) const {
    const at::Tensor weight = w(name + ".weight"), groups = weight.detach().t().reshape({o.weight_groups, -1});
    const at::Tensor of_weight = on_grid(groups, o.weight_bits).reshape({weight.size(1), weight.size(0)}).t();
    at::Tensor used = straight_through(weight, of_weight).mul(kept.at("transformer." + name).to(weight.scalar_type()));
    at::Tensor bias = w(name + ".bias").mul(kept_rows.at("transformer." + name).to(weight.scalar_type()));
    if (const auto mask = learned(name + ".sparse_mask_scores")) used = used.mul(mask->t());
    if (const auto mask = learned(name + ".row_mask_scores")) {
      used = used.mul(mask->t());
      bias = bias.mul(mask->reshape({-1}));
    }
    if (const auto mask = learned(name + ".head_pruning_scores"))
      used = used.mul(mask->t().expand({o.heads, weight.size(0) / o.heads}).reshape({-1, 1}));
    return straight_through(x, on_grid(x.detach(), o.input_bits)).matmul(used).add(bias);
  }
  /// Returns a mask that is 1 for the largest scores in the weight `name`, or nothing if there is no such weight.
  std::optional<at::Tensor> learned(const std::string& name) const {
    const auto at = weights.find("transformer." + name);
    if (at == weights.end()) return std::nullopt;
    return straight_through(at->second, largest(at->second.detach(), o.kept_scores));
  }
  /// Returns a mask that is 1 for the ceil(share * n) largest of n scores.
  static at::Tensor largest(const at::Tensor& scores, double share) {
    const auto count = static_cast<int64_t>(std::ceil(share * double(scores.numel())));
    const at::Tensor flat = scores.reshape({-1}), at = std::get<1>(flat.topk(count));
    return at::zeros_like(flat).index_fill_(0, at, 1).view(scores.sizes());
  }
  void prune() {
    for (const auto& [name, t] : weights) {
      const bool is_linear = name.ends_with(".weight") && name.find(".c_") != std::string::npos;
      if (!is_linear) continue;
      const std::string module = name.substr(0, name.size() - 7);
      const at::Tensor size = t.detach().abs();
      kept_rows[module] = largest(size.sum(at::IntArrayRef{0}), o.kept_rows);
      kept[module] = largest(size.t().contiguous(), o.kept_elements).t().mul(kept_rows[module]);
    }
  }
  /// Returns `x` rounded to symmetric quantisation grids, one for each row.
  static at::Tensor on_grid(const at::Tensor& x, int64_t bits) {
    if (bits == 0) return x;
    const double levels = std::pow(2.0, double(bits));
    const at::Tensor scale = x.abs().amax({-1}, true).mul(2 / levels);
    return x.div(scale).round().clamp(-levels / 2, levels / 2 - 1).mul(scale);
  }
  static at::Tensor straight_through(const at::Tensor& x, const at::Tensor& value) {
    return x.add(value.sub(x.detach()));
  }
  at::Tensor attention(const at::Tensor& x, const std::string& name, states* seen) const {
    const int64_t rows = x.size(0), columns = x.size(1), head = o.width / o.heads;
    const at::Tensor qkv = linear(x, name + ".c_attn");
    const auto part = [&](int64_t i) {
      return qkv.narrow(2, i * o.width, o.width).reshape({rows, columns, o.heads, head}).transpose(1, 2);
    };
    at::Tensor scores = part(0).matmul(part(1).transpose(2, 3)).div(std::sqrt(double(head)));
    const at::Tensor hidden = at::ones({columns, columns}, at::kBool).triu(1);
    scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
    const at::Tensor map = scores.softmax(-1);
    if (seen != nullptr) seen->maps.push_back(map);
    const at::Tensor mixed = map.matmul(part(2));
    return linear(mixed.transpose(1, 2).reshape({rows, columns, o.width}), name + ".c_proj");
  }
  at::Tensor block(int64_t l, at::Tensor x, states* seen) const {
    const std::string h = fmt::format("h.{}", l);
    x = x.add(attention(norm(x, h + ".ln_1"), h + ".attn", seen));
    return x.add(linear(at::gelu(linear(norm(x, h + ".ln_2"), h + ".mlp.c_fc"), "tanh"), h + ".mlp.c_proj"));
  }
  /// Returns the sum of the distillation losses of all blocks, each of which is computed independently.
  at::Tensor block_losses(const at::Tensor& all) const {
    states of_teacher;
    {
      const at::NoGradGuard no_grad;
      (void)o.distilled.teacher->parts_->logits_of(all, &of_teacher);
    }
    at::Tensor out = at::scalar_tensor(0, at::kFloat);
    for (size_t l = 0; l < o.distilled.blocks.size(); ++l) {
      const auto& [from, to] = o.distilled.blocks[l];
      const at::Tensor made = block(static_cast<int64_t>(l), of_teacher.hidden.at(size_t(from)), nullptr);
      out = out.add(made.sub(of_teacher.hidden.at(size_t(to))).square().mean());
    }
    return out;
  }
  static at::Tensor as_tensor(const std::vector<int64_t>& tokens, int64_t rows) {
    return at::from_blob(const_cast<int64_t*>(tokens.data()), {rows, int64_t(tokens.size()) / rows}, at::kLong);
  }
  /// Returns logits of shape (rows * columns, vocabulary) in fp32.
  at::Tensor logits_of(const at::Tensor& all, states* seen = nullptr) const {
    const int64_t rows = all.size(0), columns = all.size(1) - 1;
    const at::Tensor positions = at::arange(columns, at::kLong);
    at::Tensor x = at::embedding(w("wte.weight"), all.narrow(1, 0, columns))
                       .add(at::embedding(w("wpe.weight"), positions).unsqueeze(0));
    if (seen != nullptr) seen->hidden.push_back(x);
    for (int64_t l = 0; l < o.layers; ++l) {
      x = block(l, x, seen);
      if (seen != nullptr) seen->hidden.push_back(x);
    }
    return norm(x, "ln_f").matmul(w("wte.weight").t()).to(at::kFloat).reshape({rows * columns, -1});
  }
  /// Returns the loss on the data, without distillation terms.
  at::Tensor own_loss(const at::Tensor& logits, const at::Tensor& all) const {
    return at::cross_entropy_loss(logits, all.narrow(1, 1, all.size(1) - 1).reshape({-1}));
  }
  /// Returns the loss on the data in training.
  at::Tensor training_loss(const at::Tensor& logits, const at::Tensor& all) const {
    const at::Tensor targets = all.narrow(1, 1, all.size(1) - 1).reshape({-1});
    return at::cross_entropy_loss(logits, targets, {}, at::Reduction::Mean, -100, o.label_smoothing)
        .add(logits.logsumexp(-1).square().mean(), o.z_loss);
  }
  at::Tensor distillation_loss(const at::Tensor& logits, const at::Tensor& all, const states& own) const {
    const auto& by = o.distilled;
    at::Tensor taught;
    states of_teacher;
    {
      const at::NoGradGuard no_grad;
      taught = by.teacher->parts_->logits_of(all, &of_teacher);
    }
    const at::Tensor log_p = taught.div(by.temperature).log_softmax(-1),
                     log_q = logits.div(by.temperature).log_softmax(-1);
    const at::Tensor p = log_p.exp(), q = log_q.exp(), m = p.mul(by.beta).add(q, 1 - by.beta).log();
    const auto kl = [](const at::Tensor& of, const at::Tensor& log_of, const at::Tensor& log_from) {
      return of.mul(log_of.sub(log_from)).sum(-1).mean();
    };
    using enum taught_by::divergence;
    const at::Tensor apart = by.kind == forward_kl   ? kl(p, log_p, log_q)
                             : by.kind == reverse_kl ? kl(q, log_q, log_p)
                                                     : kl(p, log_p, m).mul(by.beta).add(kl(q, log_q, m), 1 - by.beta);
    at::Tensor out = apart.mul(by.logits * by.temperature * by.temperature);
    for (const auto& [mine, other] : by.hidden)
      out = out.add(own.hidden.at(size_t(mine)).sub(of_teacher.hidden.at(size_t(other))).square().mean(),
                    by.hidden_states);
    for (const auto& [mine, other] : by.maps)
      out = out.add(own.maps.at(size_t(mine)).sub(of_teacher.maps.at(size_t(other))).square().mean(), by.attention);
    return out;
  }
};

torch_loop::torch_loop(torch_loop_options options, const std::map<std::string, std::vector<int64_t>>& shapes,
                       const std::map<std::string, std::vector<float>>& weights)
    : parts_(std::make_unique<parts>()) {
  parts_->o = options;
  for (const auto& [name, values] : weights) {
    at::Tensor t = at::from_blob(const_cast<float*>(values.data()), shapes.at(name), at::kFloat).clone();
    parts_->first[name] = at::zeros_like(t);
    parts_->second[name] = at::zeros_like(t);
    parts_->weights[name] = t.set_requires_grad(true);
  }
  parts_->prune();
}
torch_loop::~torch_loop() = default;

double torch_loop::loss(const std::vector<int64_t>& tokens, int64_t rows) const {
  const at::NoGradGuard no_grad;
  const at::Tensor all = parts::as_tensor(tokens, rows);
  return parts_->own_loss(parts_->logits_of(all), all).item<double>();
}

double torch_loop::step(const std::vector<int64_t>& tokens, int64_t rows) {
  auto& p = *parts_;
  parts::states own;
  const at::Tensor all = parts::as_tensor(tokens, rows), logits = p.logits_of(all, &own);
  at::Tensor loss = p.training_loss(logits, all);
  if (!p.o.distilled.blocks.empty())
    loss = p.block_losses(all);
  else if (p.o.distilled.teacher != nullptr)
    loss = loss.mul(p.o.distilled.cross_entropy).add(p.distillation_loss(logits, all, own));
  std::vector<at::Tensor> leaves;
  for (const auto& [name, t] : p.weights) leaves.push_back(t);
  const auto gradients = torch::autograd::grad({loss}, leaves, {}, std::nullopt, false, /*allow_unused=*/true);
  const at::NoGradGuard no_grad;
  double squares = 0;
  for (const auto& g : gradients)
    if (g.defined()) squares += g.to(at::kDouble).square().sum().item<double>();
  const double factor = 1 / std::max(1.0, (std::sqrt(squares) + 1e-6) / p.o.clip);
  ++p.steps;
  const double c1 = 1 - std::pow(p.o.beta1, double(p.steps)), c2 = 1 - std::pow(p.o.beta2, double(p.steps));
  size_t i = 0;
  for (auto& [name, t] : p.weights) {
    if (!gradients[i++].defined()) continue;  // the loss does not depend on this parameter
    const at::Tensor g = gradients[i - 1].mul(factor);
    at::Tensor &m = p.first[name], &v = p.second[name];
    m.mul_(p.o.beta1).add_(g, 1 - p.o.beta1);
    v.mul_(p.o.beta2).addcmul_(g, g, 1 - p.o.beta2);
    t.mul_(1 - p.o.lr * p.o.weight_decay);
    t.addcdiv_(m.div(c1), v.div(c2).sqrt().add(p.o.eps), -p.o.lr);
  }
  return loss.item<double>();
}

std::vector<double> torch_loop::weight(const std::string& name) const {
  const at::Tensor t = parts_->weights.at(name).detach().to(at::kDouble).contiguous();
  return {t.const_data_ptr<double>(), t.const_data_ptr<double>() + t.numel()};
}

}  // namespace troupe::tests
