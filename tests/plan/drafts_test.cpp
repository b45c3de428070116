// Tests plan::draft, the graph of instructions that passes change: handles, order, replacements of removed
// instructions, lifetimes of buffers.
#include "plan/draft.hpp"

#include "plan/place/place.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(drafts)

using namespace troupe::plan;

namespace {

// Returns the micro-batches of a draft's loads, in the draft's order; 99 represents a mark.
std::vector<uint32_t> order_of(const draft& d) {
  std::vector<uint32_t> out;
  for (handle x = d.first(); x != none; x = d.next(x)) out.push_back(d.is_mark(x) ? 99 : d.at(x).micro);
  return out;
}

using order = std::vector<uint32_t>;

/// Returns the plan that results from the draft once its buffers have addresses.
rank_plan placed(draft d) {
  rank_plan p;
  auto layout = std::make_shared<job_layout>();
  layout->table = std::make_shared<const troupe::core::model_table>();
  layout->options.mode = mode::save;
  layout->communicators = {{"all", {0}}};
  layout->full_elements = {0};
  p.layout = layout;
  place(std::move(d), p);
  return p;
}

}  // namespace

BOOST_AUTO_TEST_CASE(instructions_keep_their_handles_wherever_they_are_put) {
  draft d;
  const handle a = d.append(kind::load, none, 0), mark = d.append_mark(), c = d.append(kind::load, none, 2);
  const handle b = d.insert_after(a, kind::load, none, 1), first = d.insert_before(a, kind::load, none, 7);
  BOOST_TEST(order_of(d) == (order{7, 0, 1, 99, 2}), boost::test_tools::per_element());
  d.move_before(c, a);
  BOOST_TEST(order_of(d) == (order{7, 2, 0, 1, 99}), boost::test_tools::per_element());
  d.move_after(first, mark);
  d.move_before(a, none);
  BOOST_TEST(order_of(d) == (order{2, 1, 99, 7, 0}), boost::test_tools::per_element());
  d.remove(c, none);
  d.remove(a, b);
  BOOST_TEST(order_of(d) == (order{1, 99, 7}), boost::test_tools::per_element());
  BOOST_TEST((d.first() == b && d.next(first) == none && d.before(first) == mark && d.before(b) == none));
  const auto changes = d.take_changes();
  BOOST_TEST((changes.added == 4U && changes.moved == 3U && changes.removed == 2U));
  BOOST_TEST(d.take_changes().added == 0U);
}

BOOST_AUTO_TEST_CASE(waits_for_a_removed_instruction_become_waits_for_its_replacement) {
  draft d;
  const handle a = d.append(kind::load, none, 0), b = d.append(kind::load, none, 1), c = d.append(kind::load, none, 2),
               e = d.append(kind::load, none, 3), f = d.append(kind::load, none, 4);
  d.depend(e, c);
  d.depend(e, a);
  d.depend(e, none);
  d.depend(f, b);
  d.remove(c, b);
  d.remove(b, a);
  const auto p = placed(d);
  BOOST_TEST(p.instructions.size() == 3U);
  BOOST_TEST(p.instructions[1].after == (order{0}), boost::test_tools::per_element());
  BOOST_TEST(p.instructions[2].after == (order{0}), boost::test_tools::per_element());
  d.remove(a, none);
  BOOST_TEST(placed(d).instructions[0].after.empty());
}

// The bytes of a buffer are released at its `free_from`, not after its last reader: until then they are not reused.
BOOST_AUTO_TEST_CASE(bytes_are_taken_again_from_free_from_on_after_the_last_reader) {
  for (const bool at_once : {false, true}) {
    BOOST_TEST_INFO_SCOPE("at once " << at_once);
    draft d;
    handle x[4];
    for (uint32_t i = 0; i < 4; ++i) x[i] = d.append(kind::load, none, i);
    const uint32_t early = d.open(x[0], pool::staging, 100, 0);
    d.close(early, x[1]);
    if (!at_once) d.buffer(early).free_from = x[3];
    const uint32_t late = d.open(x[2], pool::staging, 100, 1), last = d.open(x[3], pool::staging, 100, 2);
    for (const uint32_t b : {late, last}) d.buffer(b).last = x[3];
    const auto p = placed(d);
    BOOST_TEST(p.buffers[0].last == 1U);
    BOOST_TEST(p.buffers[1].offset == (at_once ? 0U : 128U));
    BOOST_TEST(p.buffers[2].offset == (at_once ? 128U : 0U));
    BOOST_TEST(p.instructions[at_once ? 2 : 3].after == (order{1}), boost::test_tools::per_element());
    BOOST_TEST(p.pool_bytes[static_cast<size_t>(pool::staging)] == 256U);
  }
}

BOOST_AUTO_TEST_CASE(a_life_ends_with_the_last_reader_in_the_order) {
  draft d;
  handle x[3];
  for (uint32_t i = 0; i < 3; ++i) x[i] = d.append(kind::load, none, i);
  const uint32_t b = d.open(x[0], pool::staging, 100, 0);
  d.buffer(b).last = x[0];
  d.read(b, x[1]);
  d.read(b, x[2]);
  BOOST_TEST(placed(d).buffers[0].last == 2U);
  d.move_after(x[1], x[2]);
  BOOST_TEST(placed(d).buffers[0].last == 2U);
  d.move_before(x[2], x[0]);
  d.move_before(x[1], x[0]);
  BOOST_TEST(placed(d).buffers[0].last == 2U, "now the opener's own");
}

BOOST_AUTO_TEST_SUITE_END()
