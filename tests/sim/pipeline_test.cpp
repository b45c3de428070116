// Simulates pipelines: the production actors need the time and memory of the published formulas, wait only for their
// dependencies, and name the missing partner of a transfer.
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "models/table/model_spec.hpp"
#include "plan/choose/cost.hpp"
#include "plan/kinds.hpp"
#include "tests/check_ok.hpp"
#include "tests/sim/world.hpp"

BOOST_AUTO_TEST_SUITE(pipeline)

using namespace troupe;
using namespace troupe::actors;
using troupe::tests::check_ok;

namespace {

/// Costs of a micro-batch on a stage: milliseconds of its forward and of the two parts of its backward, and bytes that
/// wait for each part. The two costs of backward are the two examples in the published table of formulas.
constexpr double forward_ms = 10;
struct backward_ms {
  double input, weights;
};
constexpr backward_ms equal_parts{10, 10}, measured{12, 8};
constexpr uint64_t whole = 100, part = 60;

/// Returns options with which only arithmetic needs time.
sim_options arithmetic_only() {
  sim_options o;
  const double free = std::numeric_limits<double>::infinity();
  o.costs = {.flops_per_s = 1e3,  // one flop takes one millisecond
             .copy_bytes_per_s = free,
             .disk_bytes_per_s = free,
             .disk_read_bytes_per_s = free,
             .disk_latency_s = 0,
             .latency_s = 0};
  o.link = {0, free};
  o.latency_max = std::chrono::nanoseconds(0);
  o.noise = 0;
  o.stall_after = std::chrono::seconds(1);
  o.work_min = std::chrono::seconds(3);
  return o;
}

/// Returns a training step of a model with as many units as the schedule has stages.
scenario one_step(const plan::pipeline_table& table, uint32_t data, uint32_t stage, backward_ms b = equal_parts) {
  auto units = *plan::chain_table(std::vector<uint64_t>(table.stages(), 1024 * data));
  for (auto& u : units.units) u.segments.front() = {"all", u.parameters, forward_ms, whole, part, b.weights};
  const auto model = std::make_shared<const core::model_table>(std::move(units));
  auto o = plan::small_options(data, stage, table.micro_batches);
  o.mesh = {{core::axis::pipeline, table.ranks()}, {core::axis::shard, data}};
  o.pipeline = plan::cut_evenly(*model, table);
  return {{plan::plans_of(model, o)}, {plan::plan_choice::train}, arithmetic_only()};
}

sim_result played(const scenario& s) {
  auto did = check_ok(simulate(s.plans, s.order, s.options));
  check_ok(check_log(s.plans, *did, s.options.window));
  return std::move(*did);
}

/// Times, and bytes of kept activations, of a rank's compute lane. Each message takes a nanosecond, so times are
/// rounded to milliseconds.
struct lane_time {
  double begin_ms = std::numeric_limits<double>::max(), end_ms = 0, busy_ms = 0;
  uint64_t kept = 0, most_kept = 0;  ///< kept bytes: current and peak
  [[nodiscard]] double idle_ms() const { return end_ms - begin_ms - busy_ms; }
};

std::vector<lane_time> times_of(const scenario& s, const sim_result& result) {
  std::vector<lane_time> out(s.plans[0].size());
  std::map<uint32_t, double> begun_ms;
  const int64_t zero_ns = result.log.front().time_ns;
  for (const auto& e : result.log) {
    const auto& x = s.plans[0][e.rank]->instructions[e.id];
    if (x.lane != plan::lane::compute || x.kind == plan::kind::release) continue;
    auto& t = out[e.rank];
    const double ms = std::round(double(e.time_ns - zero_ns) / 1e6);
    if (!e.end) {
      begun_ms[e.rank] = ms;
      t.begin_ms = std::min(t.begin_ms, ms);
      if (x.kind == plan::kind::forward) t.most_kept = std::max(t.most_kept, t.kept += whole);
      continue;
    }
    t.busy_ms += ms - begun_ms[e.rank];
    t.end_ms = ms;
    if (x.kind == plan::kind::backward) t.kept -= x.use == plan::use::input ? whole - part : whole;
    if (x.kind == plan::kind::backward_weight) t.kept -= part;
  }
  return out;
}

/// Published formulas of a schedule with `chunks` stages on each rank: the idle time of the worst rank, and the bytes
/// that rank `s` keeps. The costs are those of one stage.
struct published {
  std::string_view name;
  uint32_t chunks;
  double (*idle_ms)(uint32_t p, const backward_ms& b);
  uint64_t (*kept)(uint32_t p, uint32_t m, uint32_t s);
  /// Returns the smallest number of micro-batches for which the formulas are valid.
  uint32_t (*micros_min)(uint32_t p) = [](uint32_t p) { return p; };
  bool at_most = false;
  bool any_groups = true;  ///< false: the formulas require micro-batch groups of equal size
};
constexpr auto filled = [](uint32_t p, const backward_ms& b) { return (p - 1) * (forward_ms + b.input + b.weights); };
/// Returns the number of micro-batches in a group.
constexpr uint32_t group(uint32_t p, uint32_t m) { return m / (m / p); }
constexpr published rows[] = {
    {"gpipe", 1, filled, [](uint32_t, uint32_t m, uint32_t) { return m * whole; }},
    {"1f1b", 1, filled, [](uint32_t p, uint32_t m, uint32_t s) { return std::min(p - s, m) * whole; }},
    {"looped_bfs", 2, filled, [](uint32_t, uint32_t m, uint32_t) { return 2 * m * whole; }},
    {.name = "interleaved_1f1b",
     .chunks = 2,
     .idle_ms = filled,
     .kept = [](uint32_t p, uint32_t m,
                uint32_t s) { return std::min(group(p, m) + 2 * (p - 1 - s) + 1, 2 * m) * whole; },
     .any_groups = false},
    {.name = "interleaved_1f1b",
     .chunks = 3,
     .idle_ms = filled,
     .kept = [](uint32_t p, uint32_t m,
                uint32_t s) { return std::min(2 * group(p, m) + 2 * (p - 1 - s) + 1, 3 * m) * whole; },
     .any_groups = false},
    {"zb_h1", 1, [](uint32_t p, const backward_ms& b) { return (p - 1) * (forward_ms + b.input - b.weights); },
     [](uint32_t p, uint32_t, uint32_t s) { return (p - s) * whole + s * part; }},
    {"zb_h2", 1, [](uint32_t p, const backward_ms& b) { return (p - 1) * (forward_ms + b.input - 2 * b.weights); },
     [](uint32_t p, uint32_t, uint32_t s) { return (2 * (p - s) - 1) * whole + 2 * s * part; },
     [](uint32_t p) { return 2 * p - 1; }},
    {.name = "dual_pipe_v",
     .chunks = 2,
     .idle_ms = [](uint32_t p,
                   const backward_ms& b) { return (p - 1) * (forward_ms + 2 * (b.input + b.weights) - 3 * b.weights); },
     .kept = [](uint32_t p, uint32_t, uint32_t) { return (2 * p + 1) * whole; },
     .micros_min = [](uint32_t p) { return 2 * p; },
     .at_most = true},
};
/// ZB-V has no idle time if forward and both parts of backward take the same time, so it is tested with equal parts
/// only.
constexpr published zb_v = {"zb_v", 2, [](uint32_t, const backward_ms&) { return 0.0; },
                            [](uint32_t p, uint32_t, uint32_t) { return 2 * p * whole; },
                            [](uint32_t p) { return 2 * p; }};

plan::pipeline_table table_of(const published& row, uint32_t p, uint32_t m) {
  auto made = check_ok(plan::make_table(*plan::find_schedule(row.name).value(), {p, row.chunks, m}));
  return std::move(*made);
}

/// Returns the milliseconds from the first begin to the last end over all ranks.
double span_ms(const std::vector<lane_time>& ranks) {
  double begin = ranks.front().begin_ms, end = 0;
  for (const auto& t : ranks) begin = std::min(begin, t.begin_ms), end = std::max(end, t.end_ms);
  return end - begin;
}

void follows_its_formula(const published& row, uint32_t p, uint32_t m, uint32_t data, uint32_t stage, backward_ms b) {
  if (m < row.micros_min(p) || (!row.any_groups && m % (m / p) != 0)) return;
  BOOST_TEST_CONTEXT(row.name << ", " << row.chunks << " chunks, p " << p << ", m " << m << ", data " << data
                              << ", ZeRO " << stage << ", W " << b.weights) {
    const auto s = one_step(table_of(row, p, m), data, stage, b);
    const auto result = played(s);
    const auto& run = result.runs.front();
    BOOST_TEST(!run.outcome.failure, (run.outcome.failure ? run.outcome.failure->text : ""));
    const auto ranks = times_of(s, result);
    double worst_ms = 0;
    for (uint32_t r = 0; r < ranks.size(); ++r) {
      BOOST_TEST_INFO_SCOPE("r " << r);
      const auto& plan = *s.plans[0][r];
      const uint64_t kept = row.kept(p, m, plan.options().mesh.pipeline_at(r));
      worst_ms = std::max(worst_ms, ranks[r].idle_ms());
      BOOST_TEST(ranks[r].busy_ms == row.chunks * m * (forward_ms + b.input + b.weights));
      BOOST_TEST(plan.memory.activations == ranks[r].most_kept);
      BOOST_TEST((row.at_most ? ranks[r].most_kept <= kept : ranks[r].most_kept == kept), ranks[r].most_kept);
    }
    const double idle_ms = row.idle_ms(p, b);
    BOOST_TEST((row.at_most ? worst_ms <= idle_ms : worst_ms == idle_ms), worst_ms << " ms idle, wanted " << idle_ms);
    BOOST_TEST(std::round(1e3 * run.seconds) == span_ms(ranks));
    BOOST_TEST(std::round(1e3 * run.predicted_s) == span_ms(ranks));
  }
}

/// Returns a training step of a GPT-2 of 16 units over two tensor ranks and two pipeline ranks. An exchange takes a
/// third of the time of a forward segment.
scenario over_tensor_ranks(std::string_view schedule, uint32_t chunks, uint32_t micros, bool overlap, uint32_t pieces) {
  constexpr uint64_t rows = 1, columns = 64;
  const auto spec = models::parse_model_spec(R"({"model_type": "gpt2", "n_layer": 14, "n_embd": 64, "n_head": 4,
                                                 "n_positions": 64, "vocab_size": 256, "tie_word_embeddings": false})");
  auto units = models::make_model_table(*spec, rows, columns, 4, {.degree = 2, .vocabulary = false});
  for (auto& u : units.units)
    // The matrix product that ends a segment takes half of the segment's time, as in an MLP.
    for (auto& x : u.segments) x.forward_flops = 9, x.weight_flops = 9, x.output.flops = 4.5;
  const auto model = std::make_shared<const core::model_table>(std::move(units));
  const auto table = check_ok(plan::make_table(*plan::find_schedule(schedule).value(), {2, chunks, micros}));
  auto o = plan::small_options(1, 0, micros);
  o.mesh = {{core::axis::pipeline, 2}, {core::axis::tensor, 2}};
  o.overlap_exchanges = overlap;
  o.exchange_pieces = pieces;
  o.updates.rules.assign(model->parameters.size(),
                         o.updates.rules.empty() ? plan::parameter_update{} : o.updates.rules[0]);
  o.pipeline = plan::cut_evenly(*model, *table);
  scenario s{{plan::plans_of(model, o)}, {plan::plan_choice::train}, arithmetic_only()};
  const double exchanged_bytes = 4.0 * 64 * columns;
  s.options.link = {0, exchanged_bytes / 3e-3};
  return s;
}

/// Returns the fraction of the exchange time during which the rank computes; `way` restricts it to the exchanges of
/// forward or of backward.
double hidden_share(const scenario& s, const sim_result& result, std::optional<plan::use> way = std::nullopt) {
  struct interval {
    int64_t begin, end;
  };
  std::vector<std::vector<interval>> exchanges(s.plans[0].size()), products(s.plans[0].size());
  std::map<std::pair<uint32_t, uint32_t>, int64_t> begun;
  for (const auto& e : result.log) {
    const auto& x = s.plans[0][e.rank]->instructions[e.id];
    const bool computes = x.lane == plan::lane::compute && x.kind != plan::kind::release;
    if (!computes && (x.kind != plan::kind::exchange || x.use != way.value_or(x.use))) continue;
    if (!e.end)
      begun[{e.rank, e.id}] = e.time_ns;
    else
      (computes ? products : exchanges)[e.rank].push_back({begun.at({e.rank, e.id}), e.time_ns});
  }
  double all = 0, hidden = 0;
  for (size_t r = 0; r < exchanges.size(); ++r)
    for (const interval& x : exchanges[r]) {
      all += double(x.end - x.begin);
      for (const interval& p : products[r])
        hidden += double(std::max<int64_t>(0, std::min(x.end, p.end) - std::max(x.begin, p.begin)));
    }
  return hidden / all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(actors_take_the_time_and_keep_the_activations_of_the_published_formulas) {
  for (uint32_t p = 2; p <= 8; ++p)
    for (uint32_t m = p; m <= 4 * p; ++m) {
      for (const auto& row : rows)
        for (const auto& b : {equal_parts, measured}) follows_its_formula(row, p, m, 1, 0, b);
      follows_its_formula(zb_v, p, m, 1, 0, equal_parts);
    }
}

BOOST_AUTO_TEST_CASE(every_zero_stage_takes_the_same_time) {
  for (const auto& row : rows)
    for (uint32_t stage = 0; stage <= 3; ++stage) follows_its_formula(row, 3, 6, 2, stage, measured);
}

BOOST_AUTO_TEST_CASE(more_micro_batches_than_a_window_has_instructions_delay_nothing) {
  for (const auto& row : rows) follows_its_formula(row, 3, 2 * window_instructions, 1, 0, equal_parts);
}

BOOST_AUTO_TEST_CASE(exchanges_of_a_pair_lie_behind_each_others_products) {
  const auto share = [](std::string_view schedule, uint32_t chunks, bool overlap = false) {
    const auto s = over_tensor_ranks(schedule, chunks, 48, overlap, /*pieces=*/1);
    const auto result = played(s);
    const auto& failure = result.runs.front().outcome.failure;
    BOOST_TEST(!failure, (failure ? failure->text : ""));
    return hidden_share(s, result);
  };
  const double pairs = share("dual_pipe_v", 2), in_turn = share("1f1b", 1);
  // Weight parts of backward take longer than an exchange, so all exchanges of backward are hidden, and none of
  // forward.
  const double beside = share("1f1b", 1, /*overlap=*/true);
  BOOST_TEST_MESSAGE("exchange time behind products: dual_pipe_v " << pairs << ", 1f1b " << in_turn
                                                                   << ", beside weight parts " << beside);
  BOOST_TEST(beside >= 0.45, beside);
  BOOST_TEST(pairs >= 0.9, pairs);
  BOOST_TEST(in_turn < 0.5, in_turn);
}

BOOST_AUTO_TEST_CASE(exchanges_in_pieces_lie_behind_the_products_that_feed_them) {
  std::map<uint32_t, double> forward, all, seconds;
  for (const uint32_t pieces : {1U, 2U, 4U, 8U}) {
    const auto s = over_tensor_ranks("1f1b", 1, 48, /*overlap=*/true, pieces);
    const auto result = played(s);
    const auto& run = result.runs.front();
    BOOST_TEST(!run.outcome.failure, (run.outcome.failure ? run.outcome.failure->text : ""));
    forward[pieces] = hidden_share(s, result, plan::use::forward);
    all[pieces] = hidden_share(s, result);
    seconds[pieces] = run.seconds;
    BOOST_TEST_MESSAGE(pieces << " pieces: " << forward[pieces] << " of forward's exchange time behind products, "
                              << all[pieces] << " of all; step " << run.seconds << " s, predicted " << run.predicted_s);
  }
  // The product takes half of a segment's time and its exchange a third, so only the exchange of the last piece is not
  // hidden.
  BOOST_TEST(forward[1] < 0.1);
  for (const uint32_t pieces : {2U, 4U, 8U}) BOOST_TEST(forward[pieces] >= 1 - 1.0 / pieces - 0.02, pieces);
  BOOST_TEST(seconds[4] < 0.95 * seconds[1]);
}

BOOST_AUTO_TEST_CASE(any_cut_takes_the_time_that_its_plan_predicts) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    std::mt19937_64 random(seed);
    const bool shared = seed % 3 == 2;  // true: the model is sharded over a tensor, sequence or context group
    const auto [table, options] = (shared ? plan::random_shared_cut : plan::random_cut)(random, plan::mode::train);
    scenario s{{plan::plans_of(table, options)}, {plan::plan_choice::train}, arithmetic_only()};
    s.options.seed = seed;
    s.options.costs.flops_per_s = 1e8;
    const auto run = played(s).runs.front();
    BOOST_TEST_CONTEXT("seed " << seed) {
      BOOST_TEST(!run.outcome.failure, (run.outcome.failure ? run.outcome.failure->text : ""));
      BOOST_TEST(std::abs(run.seconds - run.predicted_s) < 1e-3);  // each message takes a nanosecond
    }
  }
}

// Neighbouring stages send and receive in different orders; the step must end whichever message arrives first, with and
// without latency.
BOOST_AUTO_TEST_CASE(a_schedule_in_any_order_ends_whatever_the_order_of_messages) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<uint32_t> lies = {0, 1, 2, 1, 0, 2};
    std::ranges::shuffle(lies, random);
    const auto table = plan::shuffled_table_of(lies, 3, 5, random);
    auto s = one_step(table, 2, static_cast<uint32_t>(seed % 4));
    s.options.seed = seed;
    s.options.latency_max = std::chrono::microseconds(seed % 2 == 0 ? 0 : 400);
    s.options.noise = double(seed % 3);
    BOOST_TEST_CONTEXT("seed " << seed) {
      const auto run = played(s).runs.front();
      BOOST_TEST(!run.outcome.failure, (run.outcome.failure ? run.outcome.failure->text : ""));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_late_partner_of_a_transfer_holds_back_no_collective_behind_it) {
  // Rank 1's stage is slow, so rank 0 waits for gradients from it; rank 0's collectives within its own stage must not
  // wait.
  auto made = plan::make_table(*plan::find_schedule("gpipe").value(), {2, 1, 4});
  auto s = one_step(*made, 2, 3);
  s.options.fault = {sim_fault_kind::slow_lane, 1, 2, plan::lane::compute, 0, 0, 50.0, {}};
  const auto result = played(s);
  BOOST_REQUIRE(!result.runs.front().outcome.failure);
  const auto& p = *s.plans[0][0];
  std::map<uint32_t, int64_t> ended_ns, began_ns;
  for (const auto& e : result.log)
    if (e.rank == 0) (e.end ? ended_ns : began_ns)[e.id] = e.time_ns;
  uint32_t overtaken = 0;
  const auto& fabric = p.lanes[static_cast<size_t>(plan::lane::fabric)];
  for (size_t i = 0; i < fabric.size(); ++i)
    for (size_t k = i + 1; k < fabric.size(); ++k) {
      BOOST_TEST_INFO_SCOPE("i " << i);
      const auto &first = p.instructions[fabric[i]], &second = p.instructions[fabric[k]];
      if (first.kind != plan::kind::receive || plan::is_transfer(second.kind)) continue;
      overtaken += ended_ns[second.id] < ended_ns[first.id] ? 1 : 0;
    }
  BOOST_TEST(overtaken > 0U);
  // A collective within the stage takes less than 1 ms once both ranks have started it.
  for (const uint32_t id : fabric) {
    const auto& x = p.instructions[id];
    if (x.kind != plan::kind::gather && x.kind != plan::kind::reduce) continue;
    BOOST_TEST(double(ended_ns[id] - began_ns[id]) / 1e6 < 1.0, p.describe(id));
  }
}

BOOST_AUTO_TEST_CASE(a_stall_names_stage_micro_batch_and_missing_partner) {
  auto made = plan::make_table(*plan::find_schedule("1f1b").value(), {3, 1, 4});
  auto s = one_step(*made, 1, 0);
  // The fault stops rank 1's fabric lane at its send or its receive of micro-batch 2 in forward.
  const auto& p = *s.plans[0][1];
  const auto& fabric = p.lanes[static_cast<size_t>(plan::lane::fabric)];
  for (const auto kind : {plan::kind::send, plan::kind::receive}) {
    const auto at = std::ranges::find_if(fabric, [&](uint32_t id) {
      const auto& x = p.instructions[id];
      return x.kind == kind && x.use == plan::use::forward && x.micro == 2;
    });
    BOOST_REQUIRE(at != fabric.end());
    s.options.fault = {
        sim_fault_kind::silence, 1, 1, plan::lane::fabric, static_cast<uint32_t>(at - fabric.begin()), 0, 1, {}};
    const auto result = played(s);
    const auto& failure = result.runs.back().outcome.failure;
    BOOST_REQUIRE(failure);
    BOOST_TEST((failure->kind == core::error_kind::stalled));
    BOOST_TEST(failure->text.find("rank 1 (stage 1): nothing has ended for ") == 0U, failure->text);
    BOOST_TEST(failure->text.find("fabric lane (stage 1) is in " + p.describe(*at) +
                                  " and waits for rank 1 (stage 1)") != std::string::npos,
               failure->text);
  }
}

BOOST_AUTO_TEST_SUITE_END()
