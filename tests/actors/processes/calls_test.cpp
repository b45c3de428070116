// Tests that calls and answers between processes are equal after encoding and decoding, and that other bytes are
// refused.
#include "actors/processes/calls.hpp"

#include <boost/test/unit_test.hpp>
#include <limits>

#include "core/math.hpp"
#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(calls)

using namespace troupe;
using namespace troupe::actors;
using troupe::tests::check_ok;

namespace {

template <class T>
T behind_bytes(const T& x) {
  auto out = check_ok(decode_call(encode(peer_call(x))));
  BOOST_REQUIRE(std::holds_alternative<T>(*out));
  return std::get<T>(*out);
}

run_call some_run() {
  run_call out;
  out.given = {{1, 3, {1, 2, 3}, {0}, {}, {}, 1}};
  return out;
}

run_answer some_answer() {
  run_answer out;
  rank_report r{.rank = 2, .decided = {}, .losses = {1.5, -0.0}, .spans = {}, .outputs = {{{2, 1}, {0.25F, -3.0F}}}};
  r.decided.loss = std::numeric_limits<double>::quiet_NaN();
  r.decided.square_sum = 1e-310;
  r.decided.skipped = true;
  r.decided.input_ranges = {{-1, 2}};
  r.spans.spans = {{5, 9}, {9, 12}};
  r.spans.clipped = true;
  r.spans.moved[3] = {{1, 2}};
  out.reports = {r, r};
  out.reports[1].rank = 3;
  out.peak_bytes = {10, 20};
  out.links = {{1, 0, 30, 40}, {2, 0, 50, 60}};
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_call_is_itself_behind_its_bytes) {
  opening_call opening;
  opening.costs.disk_latency_s = 1.0 / 3;
  opening.costs.device_bytes_per_s = 7;
  opening.costs.machine = {.product_flops_per_s = 5, .wakeup_s = 1.0 / 7};
  opening.load.path = "/runs/a";
  opening.load.tag = "best";
  opening.load.load_from_fp32_weights = false;
  opening.load.swap_batch_bytes = 4096;
  opening.load.changed_seed = opening.load.changed_data = opening.load.has_names = true;
  opening.load.names = {{"w", "encoder.w"}, {"b", std::nullopt}};
  opening.passes.emplace();
  opening.passes->of_step.kept_units = {1, 3};
  opening.passes->of_step.gathering.hidden.flops = 2.5;
  opening.schedule.emplace();
  opening.schedule->push_back({7, {"prefetch"}, true});
  opening.load.left_out = {{3, 4, true, {{8, 16}, {20, 24}}}, {6, 6, false, {{28, 32}}}};
  const auto o = behind_bytes(opening);
  BOOST_TEST((o.costs.disk_latency_s == 1.0 / 3 && o.costs.device_bytes_per_s == 7));
  BOOST_TEST((o.costs.machine == opening.costs.machine));
  const auto& load = o.load;
  BOOST_TEST((load.path == "/runs/a" && load.tag == "best" && load.map.empty() && load.swap_batch_bytes == 4096));
  BOOST_TEST((load.load_from_fp32_weights == false && load.changed_seed && load.changed_data && !load.changed_batch));
  BOOST_TEST((load.left_out == opening.load.left_out));
  BOOST_TEST((load.names.size() == 2 && load.names[0].name == "encoder.w" && !load.names[1].name));
  BOOST_TEST((o.passes->of_step.kept_units == opening.passes->of_step.kept_units &&
              o.passes->of_step.gathering == opening.passes->of_step.gathering));
  BOOST_TEST((o.schedule->size() == 1 && o.schedule->front().step == 7 && o.schedule->front().is_automatic));

  const auto sign = behind_bytes(output_call{"/runs/a/.sign", "what"});
  BOOST_TEST((sign.path == "/runs/a/.sign" && sign.content == "what"));

  run_call run;
  run.run = 7;
  run.step = UINT64_MAX;
  run.which = plan::plan_choice::generate;
  run.given = {{2, 2, {1, -2, INT64_MAX, 0}, {7, 8}, {-2, 0}, {0.5F, -1e-30F}, 3}, {}};
  run.keeps = kept_outputs::log_probabilities;
  run.invitation = std::string("\0x", 2);
  run.computes_loss = false;
  run.settings = {{0.1, 0.9, std::nullopt}, {1e-310, std::nullopt, 0.25}};
  const auto r = behind_bytes(run);
  BOOST_TEST((r.run == 7 && r.step == UINT64_MAX && r.which == plan::plan_choice::generate));
  BOOST_TEST_REQUIRE(r.given.size() == 2U);
  const auto &told = r.given.front(), &given = run.given.front();
  BOOST_TEST((told.rows == 2 && told.columns == 2 && told.tokens == given.tokens && told.samples == given.samples));
  BOOST_TEST((told.targets == given.targets && told.weights == given.weights && told.loss_factor == 3));
  BOOST_TEST((r.keeps == run.keeps && r.invitation == run.invitation && !r.computes_loss && !r.saves_in_memory));
  BOOST_TEST_REQUIRE(r.settings.size() == 2U);
  BOOST_TEST((r.settings[0].lr == 0.1 && r.settings[0].beta1 == 0.9 && !r.settings[0].weight_decay));
  BOOST_TEST((r.settings[1].lr == 1e-310 && !r.settings[1].beta1 && r.settings[1].weight_decay == 0.25));

  const write_call write{{3, 4, plan::state_part::second_moment, 10, 20, core::dtype::bf16}, "bytes"};
  const auto w = behind_bytes(write);
  BOOST_TEST((w.where.rank == 3 && w.where.parameter == 4 && w.where.part == plan::state_part::second_moment));
  BOOST_TEST((w.where.first == 10 && w.where.count == 20 && w.where.type == core::dtype::bf16 && w.bytes == "bytes"));
  BOOST_TEST(behind_bytes(write.where).count == 20U);

  const auto masks = behind_bytes(masks_call{{{1, 255}, {}}});
  BOOST_TEST((masks.masks.size() == 2 && masks.masks[0] == std::vector<uint8_t>({1, 255}) && masks.masks[1].empty()));
  const auto offload = behind_bytes(offload_call{{"hp_params"}, plan::tier::nvme, "/swap"});
  BOOST_TEST((offload.include.front() == "hp_params" && offload.device == plan::tier::nvme));
  BOOST_TEST(behind_bytes(go_call{true}).goes_on);
  const auto did = check_ok(decode_call_answer(encode(call_answer{true, core::error_kind::io, "gone", 3, 2})));
  BOOST_TEST((did->failed && did->kind == core::error_kind::io && did->text == "gone" && did->freed_bytes == 2));

  const auto n = behind_bytes(names_call{{{"a", "b"}, {"c", ""}}});
  BOOST_TEST((n.names.size() == 2 && n.names[0].to == "b" && n.names[1].from == "c" && n.names[1].to.empty()));
}

BOOST_AUTO_TEST_CASE(reports_keep_every_bit) {
  const auto sent = some_answer();
  const auto got = check_ok(decode_run_answer(encode(sent)));
  BOOST_TEST(encode(*got) == encode(sent));
  const auto& r = got->reports[1];
  BOOST_TEST((r.rank == 3 && std::isnan(r.decided.loss) && r.decided.square_sum == 1e-310 && r.decided.skipped));
  BOOST_TEST(
      (std::signbit(r.losses[1]) && r.spans.spans[1].end_ns == 12 && r.spans.clipped && r.spans.moved[3].size() == 1));
  BOOST_TEST((r.outputs[0].shape == std::vector<int64_t>{2, 1} && r.outputs[0].values[1] == -3.0F));
  BOOST_TEST(r.decided.input_ranges[0].largest == 2);
  BOOST_TEST((got->links.size() == 2 && got->links[1].from == 2 && got->links[1].receiving_ns == 60));
}

BOOST_AUTO_TEST_CASE(bytes_that_are_cut_or_changed_never_do_harm) {
  const std::string call = encode(peer_call(some_run())), answer = encode(some_answer());
  for (size_t n = 0; n < call.size(); ++n) BOOST_TEST(!decode_call(call.substr(0, n)).has_value());
  for (size_t n = 0; n < answer.size(); ++n) BOOST_TEST(!decode_run_answer(answer.substr(0, n)).has_value());
  for (uint64_t i = 0; i < 5000; ++i) {
    std::string changed = i % 2 == 0 ? call : answer;
    for (uint64_t k = 0; k < 1 + i % 3; ++k) {
      const uint64_t draw = core::mix64(3 * i + k);
      changed[draw % changed.size()] = static_cast<char>(draw >> 32U);
    }
    (void)decode_call(changed);
    (void)decode_run_answer(changed);
  }
  BOOST_TEST(!decode_call(std::string(1, '\x7f')).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
