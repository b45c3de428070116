#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "actors/hands/fabric_executor.hpp"
#include "fabric/layout.hpp"
#include "tests/actors/ranks.hpp"

BOOST_AUTO_TEST_SUITE(fabric_executor)

using namespace troupe;
using namespace troupe::actors;

namespace {

// A communicator whose peer copies until this rank has left, so the memory of the request must stay valid until then.
class copies_until_left final : public fabric::communicator {
 public:
  copies_until_left(std::span<const fabric::piece> expected, bool& whole) : expected_(expected), whole_(whole) {}
  ~copies_until_left() override { whole_ = std::ranges::equal(posted_.pieces, expected_); }

  [[nodiscard]] uint32_t rank() const override { return 0; }
  [[nodiscard]] uint32_t size() const override { return 2; }
  core::result<void> post(const fabric::request& r) override {
    posted_ = r;
    return {};
  }
  core::result<fabric::progress> advance(uint64_t) override { return fabric::progress::pending; }
  [[nodiscard]] std::vector<uint32_t> missing(uint64_t) const override { return {1}; }
  void abort(const core::error&) override {}

 private:
  std::span<const fabric::piece> expected_;
  bool& whole_;
  fabric::request posted_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(memory_that_a_collective_reads_outlives_the_membership_in_the_group) {
  const auto p = small_plans(2)[0];
  const auto allocated = rank_memory::allocate(p, plan::pools_of(*p));
  BOOST_TEST_REQUIRE(allocated.has_value());
  const std::shared_ptr<rank_memory> memory = *allocated;
  const auto& gather = find_instruction(*p, [](const auto& x) { return x.kind == plan::kind::gather; });
  const auto pieces = job::pieces_of(*p)[gather.communicator][gather.sequence];
  bool whole = false;
  {
    auto hands =
        std::make_unique<actors::fabric_executor>(memberships{std::make_shared<copies_until_left>(pieces, whole)},
                                                  memory, std::vector<std::shared_ptr<rank_memory>>{memory});
    hands->begin(context_of(p));
    BOOST_TEST_REQUIRE((hands->start(gather) == progress::pending));
  }
  BOOST_TEST(!pieces.empty());
  BOOST_TEST(whole);
}

// A gather communicates only within its group of shards; a gradient is reduced within the group and then over the
// replicas.
BOOST_AUTO_TEST_CASE(groups_receive_the_bytes_of_their_formulas) {
  for (const auto& [replicas, shards] : {std::pair(2U, 2U), std::pair(4U, 2U), std::pair(2U, 4U)}) {
    auto options = plan::small_options(replicas * shards, 3);
    options.mesh = plan::in_groups(replicas, shards);
    const uint64_t elements = 65'536, data = options.data();
    const auto plans = plan::plans_of(plan::chain_table({elements}), options);
    const auto& p = *plans.back();
    const auto all = job::pieces_of(p);
    const auto received = [&](plan::kind k, fabric::operation op) {
      const auto& x = find_instruction(p, [k](const auto& i) { return i.kind == k; });
      fabric::request r;
      r.op = op;
      r.pieces = all[x.communicator][x.sequence];
      const auto members = static_cast<uint32_t>(p.layout->communicators[x.communicator].members.size());
      BOOST_TEST(fabric::check_request(r, members).has_value());
      return fabric::received_bytes(r, members);
    };
    const uint64_t whole = elements * sizeof(float);
    BOOST_TEST(received(plan::kind::gather, fabric::operation::all_gather) == whole - whole / shards);
    BOOST_TEST(received(plan::kind::reduce, fabric::operation::reduce_scatter) ==
               whole + whole / shards - 2 * whole / data);
  }
}

// If second copies of the shards (hpZ) exist, only the first gather of a unit in a step communicates with all ranks.
BOOST_AUTO_TEST_CASE(second_copies_are_gathered_from_neighbours) {
  auto options = plan::small_options(8, 3, 2);
  options.gathering.near = 2;
  const auto plans = plan::plans_of(plan::chain_table({65'536, 65'536, 65'536}), options);
  const auto& p = *plans.back();
  const auto all = job::pieces_of(p);
  uint64_t received = 0, gathers = 0;
  for (const auto& x : p.instructions) {
    if (x.kind != plan::kind::gather) continue;
    fabric::request r;
    r.op = fabric::operation::all_gather;
    r.pieces = all[x.communicator][x.sequence];
    const auto members = static_cast<uint32_t>(p.layout->communicators[x.communicator].members.size());
    BOOST_TEST(members == (x.near ? 2U : 8U));
    received += fabric::received_bytes(r, members);
    ++gathers;
  }
  const uint64_t whole = 65'536 * sizeof(float);
  BOOST_TEST(gathers > 3U);
  BOOST_TEST(received == 3 * (whole - whole / 8) + (gathers - 3) * (whole - whole / 2));
}

BOOST_AUTO_TEST_SUITE_END()
