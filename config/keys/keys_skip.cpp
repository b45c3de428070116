// Rows of the key table for `data.skip` (samples that a run leaves out) and `on_spike` (the reaction to a spike of the
// loss).
#include "config/keys/key_rows.hpp"

namespace troupe::config {
namespace {

using enum value_type;
using job = job_config;

constexpr auto skipped = [](job_config & c) -> auto& { return c.data.skip; };

void add_list_keys(key_rows& t) {
  t.row("data.skip[]", section)
      .list_of(
          skipped, +[](const job& c) { return c.data.skip.size(); })
      .means("Samples that the run leaves out, by the steps that would have taken them.");
  t.row("data.skip[].steps", text)
      .needed()
      .or_number()
      .at_least(1)
      .at_most(1e12)
      .into_item<&skipped_steps::steps>(skipped)
      .means(
          "A step as the log numbers them, or a range such as 812-820: what they would take without the samples that "
          "stand before them in the list is left out, and they take what follows. A checkpoint keeps the list, to "
          "which later steps may be added.");
}

hand_made spike_action_field() {
  return {[](job_config& c, const node& v) -> std::optional<std::string> {
            c.on_spike.action = v.text == "skip"   ? spike_action::skip
                                : v.text == "stop" ? spike_action::stop
                                                   : spike_action::none;
            return std::nullopt;
          },
          [](const job_config& c) -> std::string {
            switch (c.on_spike.action) {
              case spike_action::skip:
                return "skip";
              case spike_action::stop:
                return "stop";
              case spike_action::none:
                break;
            }
            return "none";
          }};
}

void add_spike_keys(key_rows& t) {
  using spike = on_spike_section;
  constexpr auto section_of = &job::on_spike;
  section_rows key(t, "on_spike", "What follows when the loss of a step rises far above those before it.");
  key.itself().switched_by("on_spike.action");
  key("action", text, "none",
      "stop: the run ends, and the last checkpoint stays; skip: it goes back to the last saved state, leaves out the "
      "samples of the steps since, and continues; none: nothing.")
      .one_of({"none", "skip", "stop"})
      .by_hand(spike_action_field());
  key("factor", number, "3",
      "A loss above so many times the median of the last losses is a spike, as is one that is "
      "not finite.")
      .above(1)
      .at_most(1e6)
      .into<section_of, &spike::factor>();
  key("window", integer, "100", "Losses of which the median is taken.")
      .at_least(1)
      .at_most(10'000)
      .into<section_of, &spike::window>();
  key("min_steps", integer, "20", "Losses that are there before one is compared with them.")
      .at_least(1)
      .at_most(10'000)
      .into<section_of, &spike::min_steps>();
  key("back_steps", integer, "1",
      "Steps that the state it goes back to lies before the end of the spike's step, at least.")
      .at_least(1)
      .at_most(1e9)
      .into<section_of, &spike::back_steps>();
  key("ahead_steps", integer, "0", "Steps behind the spike's whose samples are left out as well.")
      .at_least(0)
      .at_most(1e9)
      .into<section_of, &spike::ahead_steps>();
  key("times_max", integer, "10", "How often a run goes back; the next spike ends it.")
      .at_least(1)
      .at_most(1000)
      .into<section_of, &spike::times_max>();
}

}  // namespace

void add_skip_keys(key_rows& t) {
  add_list_keys(t);
  add_spike_keys(t);
}

}  // namespace troupe::config
