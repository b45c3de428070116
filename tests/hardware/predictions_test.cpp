// Compares prices with those of the reference implementation (fixtures/reference.py), for a sample of published
// configurations of every set.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <map>

#include "core/number.hpp"
#include "core/source_file.hpp"
#include "hardware/catalogue.hpp"
#include "hardware/csv.hpp"
#include "hardware/price.hpp"
#include "hardware/step_cost.hpp"
#include "tests/check_ok.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(predictions)

using namespace troupe;
using namespace troupe::hardware;
using namespace troupe::tests;

namespace {

constexpr double tolerance = 1e-6;

/// One row of a fixture: its numbers by column.
struct fixture_row {
  std::string stack_name;
  std::map<std::string, double> numbers;
  [[nodiscard]] double w(const std::string& name) const { return numbers.at("w_" + name); }
  [[nodiscard]] bool is(const std::string& name) const { return w(name) > 0; }
};

std::vector<fixture_row> rows_of(const std::string& name) {
  const auto path = std::filesystem::path(places::source_dir) / "tests/hardware/fixtures" / (name + ".csv");
  const auto text = check_ok(core::read_file(path, most_csv_bytes));
  const auto file = check_ok(read_csv(*text, path.string()));
  std::vector<fixture_row> out;
  for (const auto& row : file->rows) {
    auto& one = out.emplace_back();
    one.stack_name = row.cells.front();
    for (size_t i = 1; i < row.cells.size(); ++i)
      one.numbers[file->columns[i]] = *check_ok(core::number_of<double>(row.cells[i]));
  }
  return out;
}

stack stack_of(const fixture_row& row) {
  auto all = check_ok(choose_stacks({row.stack_name}, ""));
  return all->front();
}

workload workload_of(const fixture_row& r) {
  workload w;
  w.hidden = r.w("hidden"), w.ffn = r.w("ffn"), w.heads = r.w("heads"), w.kv_heads = r.w("kv_heads");
  w.layers = r.w("layers"), w.sequence = r.w("sequence"), w.vocabulary = r.w("vocabulary");
  w.tensor = r.w("tensor"), w.data = r.w("data"), w.pipeline = r.w("pipeline"), w.context = r.w("context");
  w.chunks = r.w("chunks"), w.micro_batch = r.w("micro_batch"), w.micro_batches = r.w("micro_batches");
  w.zero = static_cast<int>(r.w("zero"));
  w.gated = r.is("gated"), w.recompute = r.is("recompute"), w.selective = r.is("selective");
  w.early_stop = r.is("early_stop"), w.fused_attention = r.is("fused_attention"), w.causal_skip = r.is("causal_skip");
  w.sequence_parallel = r.is("sequence_parallel"), w.bias = r.is("bias");
  w.learned_positions = r.is("learned_positions"), w.untied = r.is("untied");
  w.embedding_is_layer = r.is("embedding_is_layer"), w.slow_pcie = r.is("slow_pcie");
  w.product_rate_factor = r.w("product_rate_factor"), w.grad_bytes = r.w("grad_bytes");
  w.gather_bytes = r.w("gather_bytes"), w.reduce_bytes = r.w("reduce_bytes");
  w.main_grad_bytes = r.w("main_grad_bytes");
  return w;
}

/// Checks the price of a shape, and that its parts add up to it.
void check_price(quantity q, const shape& of, const stack& by, const fixture_row& row) {
  const auto* const model = by.find(q);
  BOOST_TEST_REQUIRE(model != nullptr);
  check_ok(needs_of(q, of, by.on, model->values));
  const double price = price_of(q, of, by.on, model->values);
  BOOST_TEST(std::abs(price / row.numbers.at("predicted") - 1) < tolerance,
             by.name << ": " << price << ", wanted " << row.numbers.at("predicted"));
  double sum = 0;
  for (const auto& part : parts_of(q, of, by.on, model->values)) sum += part.value;
  if (q == quantity::step || q == quantity::memory)
    BOOST_TEST(sum == price);
  else
    BOOST_TEST(std::abs(sum / price - 1) < 1e-12);
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps_and_their_parts_are_those_of_the_reference) {
  const auto rows = rows_of("steps");
  BOOST_TEST(rows.size() > 80U);
  for (const auto& row : rows) {
    const auto by = stack_of(row);
    const auto w = workload_of(row);
    BOOST_TEST(by.on.peak_flops_per_s == row.w("peak_flops_per_s"));
    BOOST_TEST(by.on.memory_bytes_per_s == row.w("memory_bytes_per_s"));
    BOOST_TEST(by.on.nvlink_bytes_per_s == row.w("nvlink_bytes_per_s"));
    BOOST_TEST(by.on.network_bytes_per_s == row.w("network_bytes_per_s"));
    BOOST_TEST(by.on.sms == row.w("sms"));
    check_price(quantity::step, w, by, row);
    const auto c = cost_of_step(w, by.on, by.find(quantity::step)->values);
    const std::map<std::string, double> parts = {{"flow_s", c.flow_s},
                                                 {"reduce_s", c.reduce_s},
                                                 {"update_s", c.update_s},
                                                 {"straggler_s", c.straggler_s},
                                                 {"head_s", c.head_s},
                                                 {"send_s", c.send_s},
                                                 {"layer_s", c.layer.whole_s},
                                                 {"device_s", c.layer.device_s},
                                                 {"host_s", c.layer.host_s},
                                                 {"gather_s", c.layer.gather_s},
                                                 {"scatter_s", c.layer.scatter_s},
                                                 {"products_s", c.layer.products_s},
                                                 {"attention_s", c.layer.attention_s},
                                                 {"elementwise_s", c.layer.elementwise_s},
                                                 {"tensor_s", c.layer.tensor_s}};
    for (const auto& [name, value] : parts) {
      const double wanted = row.numbers.at("part_" + name);
      BOOST_TEST(std::abs(value - wanted) <= tolerance * wanted, name << " " << value << ", wanted " << wanted);
    }
  }
}

BOOST_AUTO_TEST_CASE(peaks_of_memory_are_those_of_the_reference) {
  for (const auto& row : rows_of("memory")) check_price(quantity::memory, workload_of(row), stack_of(row), row);
}

BOOST_AUTO_TEST_CASE(products_are_those_of_the_reference) {
  for (const auto& row : rows_of("products")) {
    const product_shape p{.m = row.w("m"),
                          .n = row.w("n"),
                          .k = row.w("k"),
                          .layout = static_cast<product_layout>(row.w("layout")),
                          .out_bytes = row.w("out_bytes"),
                          .accumulate = row.is("accumulate")};
    check_price(quantity::product, p, stack_of(row), row);
  }
}

BOOST_AUTO_TEST_CASE(attention_kernels_are_those_of_the_reference) {
  for (const auto& row : rows_of("attention")) {
    const attention_shape a{.batch = row.w("batch"),
                            .heads = row.w("heads"),
                            .sequence = row.w("sequence"),
                            .qk_width = row.w("qk_width"),
                            .v_width = row.w("v_width"),
                            .backward = row.is("backward")};
    check_price(quantity::attention, a, stack_of(row), row);
  }
}

BOOST_AUTO_TEST_CASE(all_reduces_are_those_of_the_reference) {
  for (const auto& row : rows_of("all_reduce"))
    check_price(quantity::all_reduce, all_reduce_shape{row.w("n"), row.w("bytes")}, stack_of(row), row);
}

BOOST_AUTO_TEST_SUITE_END()
