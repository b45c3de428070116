// Tests files of measured unit times, and that the cost model uses them instead of computed times.
#include "plan/choose/profile.hpp"

#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(profile)

using namespace troupe::plan;

namespace {

model_profile measured(const shared_table& table) {
  model_profile p{.dtype = "fp32",
                  .steps = 18,
                  .update_s_per_element = 1.25e-9,
                  .transfer_s_per_byte = 3.1e-10,
                  .units = units_to_profile(*table)};
  double k = 1;
  for (auto& u : p.units) {
    u.forward_s = k / 1000;
    u.backward_input_s = k / 900;
    u.backward_weight_s = k / 1100;
    k += 0.1;
  }
  return p;
}

std::string refusal(const std::string& text) {
  const auto read = read_profile(text, "profile.csv");
  return read ? "" : read.error().text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_written_is_read) {
  const auto table = gpt_table(3, 32, 100, false);
  const auto p = measured(table);
  const std::string text = write_profile(p);
  const auto read = read_profile(text, "profile.csv");
  BOOST_TEST_REQUIRE(read.has_value());
  BOOST_TEST(write_profile(*read) == text);
  BOOST_TEST(read->steps == 18U);
  BOOST_TEST(is_of(*read, *table, troupe::core::dtype::f32));
}

BOOST_AUTO_TEST_CASE(names_may_have_commas_quotes_and_line_ends) {
  auto table = *gpt_table(1, 32, 100, false);
  table.units[1].name = "a, \"b\"\nc";
  const auto shared = std::make_shared<const troupe::core::model_table>(table);
  const auto read = read_profile(write_profile(measured(shared)), "profile.csv");
  BOOST_TEST_REQUIRE(read.has_value());
  BOOST_TEST(is_of(*read, *shared, troupe::core::dtype::f32));
}

BOOST_AUTO_TEST_CASE(a_profile_is_of_one_model_batch_and_type) {
  using troupe::core::dtype;
  const auto table = gpt_table(3, 32, 100, false);
  const auto p = measured(table);
  BOOST_TEST(!is_of(p, *table, dtype::bf16));
  BOOST_TEST(!is_of(p, *gpt_table(4, 32, 100, false), dtype::f32));
  BOOST_TEST(!is_of(p, *gpt_table(3, 64, 100, false), dtype::f32));
  auto larger = *table;  // has twice the saved bytes, as with a larger micro-batch
  for (auto& u : larger.units)
    for (auto& s : u.segments) s.saved_bytes *= 2;
  BOOST_TEST(!is_of(p, larger, dtype::f32));
}

BOOST_AUTO_TEST_CASE(measured_times_replace_modelled_ones_and_bytes_stay) {
  const auto table = gpt_table(3, 32, 100, false);
  auto p = measured(table);
  for (const bool recompute : {false, true})
    for (const double again : {0.0, 0.25}) {
      BOOST_TEST_INFO_SCOPE("again " << again);
      BOOST_TEST_INFO_SCOPE("recompute " << recompute);
      auto o = small_options(2, 1, 4);
      o.recompute = recompute;
      for (auto& u : p.units) u.recompute_s = again;
      const auto modelled = model_units(*table, o, {});
      auto units = modelled;
      take_times(p, *table, o, units);
      for (size_t u = 0; u < units.size(); ++u) {
        BOOST_TEST_INFO_SCOPE("u " << u);
        const double more = !recompute || u == 0 ? 0 : again > 0 ? again : p.units[u].forward_s;
        BOOST_TEST(units[u].micro.forward_s == p.units[u].forward_s);
        BOOST_TEST(units[u].micro.backward_input_s == p.units[u].backward_input_s + more);
        BOOST_TEST(units[u].micro.backward_weight_s == p.units[u].backward_weight_s);
        BOOST_TEST(units[u].micro.activation_bytes == modelled[u].micro.activation_bytes);
        BOOST_TEST(units[u].state_bytes == modelled[u].state_bytes);
        BOOST_TEST(units[u].update_s == double((p.units[u].elements + 1) / 2) * 1.25e-9,
                   boost::test_tools::tolerance(1e-2));
      }
    }
}

BOOST_AUTO_TEST_CASE(a_file_that_is_no_profile_is_refused_at_its_line) {
  const std::string good = write_profile(measured(gpt_table(1, 32, 100, false)));
  const auto with = [&](const std::string& from, const std::string& to) {
    auto text = good;
    return refusal(text.replace(text.find(from), from.size(), to));
  };
  BOOST_TEST(refusal("") == "profile.csv:1: wanted 'troupe profile,1' of a profile");
  BOOST_TEST(with("profile,1", "profile,2").starts_with("profile.csv:1: "));
  BOOST_TEST(with("steps,18", "steps,many") == "profile.csv:3: wanted 'steps,N' of a profile");
  BOOST_TEST(with("1.25e-09", "-1").starts_with("profile.csv:4: "));
  BOOST_TEST(with("3.1e-10", "inf").starts_with("profile.csv:5: "));
  BOOST_TEST(with("forward_flops", "flops").starts_with("profile.csv:6: "));
  BOOST_TEST(with("0.001,", "nan,") == "profile.csv:7: wanted seven numbers and a name in quotes of a profile");
  BOOST_TEST(refusal(good + "1,2,3\n").find("wanted seven numbers") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
