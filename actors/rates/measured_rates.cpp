#include "actors/rates/measured_rates.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <thread>

#include "actors/host_thread.hpp"
#include "actors/opening/own_system.hpp"
#include "actors/rates/core_team.hpp"
#include "core/clock.hpp"
#include "job/machine_load.hpp"
#include "kernels/layers/causal_attention.hpp"
#include "kernels/layers/cross_entropy.hpp"
#include "kernels/layers/elementwise.hpp"
#include "kernels/layers/row_norm.hpp"
#include "kernels/optimizer/adamw.hpp"
#include "kernels/sums/reduce.hpp"
#include "models/segment/products.hpp"
#include "models/segment/torch_values.hpp"
#include "plan/choose/machine_costs.hpp"

namespace troupe::actors {
namespace {

using core::dtype;
using plan::machine_costs;

/// Sizes of the products from which the constants of products follow: those of layers of small models, and a size that
/// short sequences and small ranks of adapters have.
constexpr plan::product_size large_product{512, 1024, 512};
constexpr uint64_t small_size = 32;
constexpr uint64_t multiplied_bytes = uint64_t{32} << 20;

/// Sizes of the other operations: the activations of a layer, which stay in a cache, and states, buckets and copies,
/// which do not.
constexpr uint64_t norm_rows = 512, norm_width = 768;
constexpr uint64_t activation_elements = uint64_t{1} << 20;
constexpr uint64_t loss_rows = 128, loss_width = 4096;
constexpr uint64_t copied_bytes = uint64_t{64} << 20;
constexpr uint64_t summed_elements = uint64_t{8} << 20;
constexpr uint64_t updated_elements = uint64_t{8} << 20;
constexpr kernels::attention_sizes attended{.tokens = 256, .heads = 4, .kv_heads = 4, .head_width = 64};
constexpr int64_t launched_width = 8;
constexpr int wakeups = 2000;

/// Memory for elements of any kernel's type, whose bytes are those of small numbers in fp32 and in bf16.
class element_memory {
 public:
  element_memory(uint64_t count, dtype type) : bytes_(count * core::size_of(type)) {
    constexpr uint16_t small_bf16 = 0x3C23;  // about 0.01; as two halves of an fp32 it is about 0.01, too
    for (size_t at = 0; at + sizeof small_bf16 <= bytes_.size(); at += sizeof small_bf16)
      std::memcpy(bytes_.data() + at, &small_bf16, sizeof small_bf16);
  }
  [[nodiscard]] std::byte* data() { return bytes_.data(); }
  [[nodiscard]] const std::byte* data() const { return bytes_.data(); }
  [[nodiscard]] float* floats() { return reinterpret_cast<float*>(bytes_.data()); }

 private:
  std::vector<std::byte> bytes_;
};

/// Multiplies with one weight after the other, because a step reads each weight once: all weights and results together
/// fit in no cache of a core.
operation_maker product_maker(const plan::product_size& size, dtype type) {
  return [size, type]() -> std::function<void()> {
    struct factors {
      at::Tensor weight, out;
    };
    const auto options = at::dtype(models::torch_dtype(type));
    const auto m = static_cast<int64_t>(size.m), n = static_cast<int64_t>(size.n), k = static_cast<int64_t>(size.k);
    const uint64_t bytes = (size.k * size.n + size.m * size.n) * core::size_of(type);
    const at::Tensor a = at::full({m, k}, 0.01, options);
    auto all = std::make_shared<std::vector<factors>>();
    for (uint64_t i = 0; i < std::max<uint64_t>(2, multiplied_bytes / bytes); ++i)
      all->push_back({at::full({k, n}, 0.01, options), at::full({m, n}, 0.0, options)});
    return [a, all, next = size_t{0}]() mutable {
      auto& [weight, out] = (*all)[next++ % all->size()];
      models::product_out(out, a, weight);
    };
  };
}

/// Memory of one call of attention's kernel and of its backward.
struct attention_memory {
  kernels::attention_sizes sizes;
  element_memory qkv, y, dqkv;
  std::vector<float> scratch;

  explicit attention_memory(dtype type)
      : sizes(attended),
        qkv(attended.tokens * packed(), type),
        y(attended.tokens * attended.heads * attended.head_width, type),
        dqkv(attended.tokens * packed(), type) {
    sizes.type = type;
    scratch.resize(
        std::max(kernels::causal_attention_scratch(sizes), kernels::causal_attention_backward_scratch(sizes)));
  }
  static constexpr uint64_t packed() { return (attended.heads + 2 * attended.kv_heads) * attended.head_width; }
  template <class Byte>
  [[nodiscard]] kernels::attention_operands<Byte> operands(Byte* base) const {
    return {base, base + attended.heads * attended.head_width * core::size_of(sizes.type), packed(), packed()};
  }
};

operation_maker attention_maker(dtype type, bool backward) {
  return [type, backward]() -> std::function<void()> {
    auto memory = std::make_shared<attention_memory>(type);
    return [memory, backward] {
      auto& x = *memory;
      const kernels::query_run all{0, attended.tokens, 0};
      const auto in = x.operands<const std::byte>(x.qkv.data());
      if (backward)
        kernels::partial_attention_backward(x.sizes, {}, in, {&all, 1}, x.y.data(),
                                            x.operands<std::byte>(x.dqkv.data()), x.scratch);
      else
        kernels::partial_attention(x.sizes, {}, in, {&all, 1}, x.y.data(), x.scratch);
    };
  };
}

/// Returns the flops of attention's two products over the keys that each query sees, as plans count them.
double attention_flops() {
  const double keys = (static_cast<double>(attended.tokens) + 1) / 2;
  return 4 * static_cast<double>(attended.tokens) * keys * static_cast<double>(attended.heads * attended.head_width);
}

operation_maker norm_maker(dtype type) {
  return [type]() -> std::function<void()> {
    struct memory {
      element_memory x, y, weight, bias;
      std::vector<float> mean, rstd;
    };
    auto all = std::make_shared<memory>(memory{{norm_rows * norm_width, type},
                                               {norm_rows * norm_width, type},
                                               {norm_width, type},
                                               {norm_width, type},
                                               std::vector<float>(norm_rows),
                                               std::vector<float>(norm_rows)});
    return [all, type] {
      const kernels::norm_input in{
          .x = all->x.data(), .weight = all->weight.data(), .type = type, .rows = norm_rows, .width = norm_width};
      kernels::layer_norm(in, all->bias.data(), 1e-5, all->y.data(), all->mean.data(), all->rstd.data());
    };
  };
}

operation_maker activation_maker(dtype type) {
  return [type]() -> std::function<void()> {
    auto x = std::make_shared<element_memory>(activation_elements, type);
    auto y = std::make_shared<element_memory>(activation_elements, type);
    return [x, y, type] { kernels::gelu_tanh(x->data(), y->data(), type, activation_elements); };
  };
}

operation_maker loss_maker(dtype type) {
  return [type]() -> std::function<void()> {
    auto logits = std::make_shared<element_memory>(loss_rows * loss_width, type);
    auto targets = std::make_shared<std::vector<int64_t>>(loss_rows, 1);
    auto sums = std::make_shared<std::vector<float>>(loss_rows);
    return [logits, targets, sums, type] {
      kernels::cross_entropy(logits->data(), type, loss_rows, loss_width, targets->data(), sums->data());
      kernels::cross_entropy_backward(logits->data(), type, loss_rows, loss_width, loss_width, targets->data(),
                                      sums->data(), 1.0);
    };
  };
}

std::function<void()> make_copy() {
  auto from = std::make_shared<element_memory>(copied_bytes, dtype::u8);
  auto to = std::make_shared<element_memory>(copied_bytes, dtype::u8);
  return [from, to] { std::memcpy(to->data(), from->data(), copied_bytes); };
}

operation_maker sum_maker(dtype type) {
  return [type]() -> std::function<void()> {
    auto a = std::make_shared<element_memory>(summed_elements, type);
    auto b = std::make_shared<element_memory>(summed_elements, type);
    auto to = std::make_shared<element_memory>(summed_elements, dtype::f32);
    return [a, b, to, type] {
      const std::byte* const inputs[] = {a->data(), b->data()};
      kernels::sum_in_rank_order(inputs, to->data(), summed_elements,
                                 {.input = type, .communication = type, .output = dtype::f32});
    };
  };
}

operation_maker update_maker(dtype type) {
  return [type]() -> std::function<void()> {
    struct memory {
      element_memory master, first, second, gradient, copy;
    };
    const auto floats = [] { return element_memory(updated_elements, dtype::f32); };
    auto all = std::make_shared<memory>(
        memory{floats(), floats(), floats(), floats(), {type == dtype::f32 ? 0 : updated_elements, dtype::bf16}});
    return [all, type] {
      kernels::optimizer_piece<float> piece;
      piece.master = all->master.floats();
      piece.moments = {all->first.floats(), all->second.floats()};
      piece.gradient = all->gradient.data();
      if (type != dtype::f32) piece.copy = all->copy.data();
      piece.count = updated_elements;
      kernels::adamw({}, {}, piece);
    };
  };
}

/// Returns the bytes of an update of updated_elements, as plans count them.
double update_bytes(dtype type) {
  const double of_element = 4 * 2 * 3 + 4 + (type == dtype::f32 ? 0 : 2);
  return static_cast<double>(updated_elements) * of_element;
}

std::function<void()> make_launch() {
  const at::Tensor a = at::full({launched_width, launched_width}, 0.01);
  return [a] { (void)models::product(a, a); };
}

/// Answers each number with the sum of it and `more`. CAF 0.17 reads a null pointer for a function without arguments.
caf::behavior answer_with(int64_t more) {
  return {[more](int64_t n) { return n + more; }};
}

/// Returns the seconds of half of each of many requests to an actor with a thread of its own, ascending: one wake-up
/// of a thread by a message. All cores but one multiply matrices meanwhile.
core::result<std::vector<double>> seconds_of_wakeups(uint32_t cores, double each_s) {
  std::vector<double> out;
  std::string failed;
  std::optional<core::result<std::vector<double>>> around;
  std::thread busy;
  try {
    if (cores > 1)
      busy =
          std::thread([&] { around = repeated_on_cores(cores - 1, each_s, product_maker(large_product, dtype::f32)); });
    own_system own;
    const auto answers = own.system.spawn<caf::detached>(answer_with, int64_t{0});
    {
      const host_caller self(own.system);
      const int64_t begin = core::now_ns();
      for (int i = 0; i < wakeups && failed.empty() && (i == 0 || core::seconds_since(begin) < each_s); ++i) {
        const int64_t before = core::now_ns();
        self->request(answers, caf::infinite, int64_t{1})
            .receive([&](int64_t) { out.push_back(core::seconds_since(before) / 2); },
                     [&](caf::error&) { failed = "an actor did not answer"; });
      }
    }
    caf::anon_send_exit(answers, caf::exit_reason::user_shutdown);
  } catch (const std::exception& e) {
    failed = e.what();
  }
  if (busy.joinable()) busy.join();
  if (around && !*around) return core::fail(around->error());
  if (!failed.empty() || out.empty())
    return core::fail(core::error_kind::limit, "cannot measure wake-ups of actors: " + failed);
  std::ranges::sort(out);
  return out;
}

/// Sets a rate's median and middle half: the amount per second of a repeated operation.
void set_rate(job::costs_of_type& to, double machine_costs::*field, double amount, const std::vector<double>& seconds) {
  const middle_half took = middle_of(seconds);
  to.median.*field = amount / took.median;
  to.lower.*field = amount / took.upper;
  to.upper.*field = amount / took.lower;
}
void set_seconds(job::costs_of_type& to, double machine_costs::*field, const std::vector<double>& seconds) {
  const middle_half took = middle_of(seconds);
  to.median.*field = took.median;
  to.lower.*field = took.lower;
  to.upper.*field = took.upper;
}

/// Measures all constants, an operation after the other.
class rate_meter {
 public:
  rate_meter(uint32_t cores, double each_s, const std::function<void(const std::string&)>& tell)
      : cores_(cores), each_s_(each_s), tell_(tell) {}

  core::result<std::vector<job::costs_of_type>> measure() {
    job::costs_of_type common;
    TROUPE_ASSIGN(const auto copies, repeat("copies", make_copy));
    set_rate(common, &machine_costs::copy_bytes_per_s, static_cast<double>(copied_bytes), copies);
    TROUPE_ASSIGN(const auto launches, repeat("started operations", make_launch));
    set_seconds(common, &machine_costs::launch_s, launches);
    tell_("wake-ups of actors");
    TROUPE_ASSIGN(const auto woken, seconds_of_wakeups(cores_, each_s_));
    set_seconds(common, &machine_costs::wakeup_s, woken);
    std::vector<job::costs_of_type> out;
    for (const dtype type : {dtype::f32, dtype::bf16}) {
      auto& one = out.emplace_back(common);
      one.type = type;
      TROUPE_TRY(measure_type(one));
    }
    return out;
  }

 private:
  core::result<std::vector<double>> repeat(const std::string& what, const operation_maker& make) {
    tell_(what);
    return repeated_on_cores(cores_, each_s_, make);
  }

  core::result<void> measure_type(job::costs_of_type& to) {
    const dtype type = to.type;
    const std::string name = type == dtype::f32 ? " in fp32" : " in bf16";
    const double bytes = static_cast<double>(core::size_of(type));
    TROUPE_TRY(measure_products(name, to));
    TROUPE_ASSIGN(const auto forward, repeat("attention" + name, attention_maker(type, false)));
    set_rate(to, &machine_costs::attention_flops_per_s, attention_flops(), forward);
    TROUPE_ASSIGN(const auto backward, repeat("backward of attention" + name, attention_maker(type, true)));
    set_rate(to, &machine_costs::attention_backward_flops_per_s, 2 * attention_flops(), backward);
    TROUPE_ASSIGN(const auto norms, repeat("norms" + name, norm_maker(type)));
    set_rate(to, &machine_costs::elementwise_bytes_per_s, 2 * bytes * static_cast<double>(norm_rows * norm_width),
             norms);
    TROUPE_ASSIGN(const auto activations, repeat("activations" + name, activation_maker(type)));
    set_rate(to, &machine_costs::activation_bytes_per_s, 2 * bytes * static_cast<double>(activation_elements),
             activations);
    TROUPE_ASSIGN(const auto losses, repeat("the loss" + name, loss_maker(type)));
    set_rate(to, &machine_costs::loss_bytes_per_s, 4 * bytes * static_cast<double>(loss_rows * loss_width), losses);
    TROUPE_ASSIGN(const auto sums, repeat("sums over ranks" + name, sum_maker(type)));
    set_rate(to, &machine_costs::reduce_bytes_per_s, 2 * bytes * static_cast<double>(summed_elements), sums);
    TROUPE_ASSIGN(const auto updates, repeat("updates" + name, update_maker(type)));
    set_rate(to, &machine_costs::update_bytes_per_s, update_bytes(type), updates);
    return {};
  }

  core::result<void> measure_products(const std::string& name, job::costs_of_type& to) {
    plan::product_size m = large_product, n = large_product, k = large_product;
    m.m = n.n = k.k = small_size;
    TROUPE_ASSIGN(const auto large, repeat("large products" + name, product_maker(large_product, to.type)));
    TROUPE_ASSIGN(const auto few_rows, repeat("products of few rows" + name, product_maker(m, to.type)));
    TROUPE_ASSIGN(const auto few_columns, repeat("products of few columns" + name, product_maker(n, to.type)));
    TROUPE_ASSIGN(const auto few_summands, repeat("products of few summands" + name, product_maker(k, to.type)));
    const middle_half all = middle_of(large), rows = middle_of(few_rows), columns = middle_of(few_columns),
                      summands = middle_of(few_summands);
    const auto fit = [&](double rows_s, double columns_s, double summands_s, machine_costs& costs) {
      plan::fit_products({.large = large_product,
                          .large_s = all.median,
                          .small_m = small_size,
                          .small_n = small_size,
                          .small_k = small_size,
                          .small_m_s = rows_s,
                          .small_n_s = columns_s,
                          .small_k_s = summands_s},
                         costs);
    };
    // The fills of the ends of the middle half follow from the small products' ends, the rate from the large one's.
    fit(rows.lower, columns.lower, summands.lower, to.lower);
    fit(rows.upper, columns.upper, summands.upper, to.upper);
    fit(rows.median, columns.median, summands.median, to.median);
    to.lower.product_flops_per_s = to.median.product_flops_per_s * all.median / all.upper;
    to.upper.product_flops_per_s = to.median.product_flops_per_s * all.median / all.lower;
    return {};
  }

  uint32_t cores_;
  double each_s_;
  const std::function<void(const std::string&)>& tell_;
};

/// Returns the processor time of all programs; nullopt if the kernel does not say.
std::optional<job::processor_times> processor_times_now() {
  return job::processor_times_in(job::kernel_text("/proc/stat"), static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

double own_processor_s() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace

core::result<measured_rates> measure_rates(uint32_t cores, const std::function<void(const std::string&)>& tell,
                                           double repeated_s) {
  const int64_t begin = core::now_ns();
  const auto before = processor_times_now();
  const double own_s = own_processor_s();
  measured_rates out;
  TROUPE_ASSIGN(out.types, rate_meter(std::max(1U, cores), repeated_s, tell).measure());
  const auto after = processor_times_now();
  if (before && after) out.share_of_others = job::share_of_others(*before, *after, own_processor_s() - own_s);
  out.took_s = core::seconds_since(begin);
  return out;
}

}  // namespace troupe::actors
