// Tests the sends and receives that are added to a schedule. Comparisons with PyTorch's pass are in named_test.cpp.
#include "plan/schedule/transfers.hpp"

#include "plan/schedule/proof.hpp"
#include "tests/plan/schedule/tables.hpp"

BOOST_AUTO_TEST_SUITE(transfers)

using namespace troupe::plan;

BOOST_AUTO_TEST_CASE(a_send_stands_behind_what_it_sends_and_a_receive_where_the_sender_comes_to_it) {
  BOOST_TEST(write_table(with_transfers(named_table("1f1b", 2, 1, 2))) ==
             "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
             "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
}

BOOST_AUTO_TEST_CASE(stages_of_one_rank_send_each_other_nothing) {
  BOOST_TEST(write_table(with_transfers(named_table("zb_v", 1, 2, 1))) == "0F0,1F0,1I0,1W0,0I0,0W0\n");
  const auto text = write_table(with_transfers(named_table("zb_v", 2, 2, 3)));
  BOOST_TEST(text.find("1SEND_F") == std::string::npos);  // stages 1 and 2 are both on rank 1, so no transfer is needed
  BOOST_TEST(text.find("2RECV_F") == std::string::npos);
  BOOST_TEST(text.find("2SEND_F") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(neighbouring_parts_of_a_backward_become_one) {
  const auto t = read_table("0F0,0F1,0I0,0W0,0I1,1F0,1F1,1I0,1I1,1W0,1W1,0W1", "a.csv");
  BOOST_TEST(!t.has_value());  // stage 0 runs its backward before stage 1 has computed the gradient
  const auto good = read_table("0F0,0F1,1F0,1F1,1I0,1I1,1W0,1W1,0I0,0W0,0I1,0W1", "a.csv");
  BOOST_REQUIRE(good.has_value());
  BOOST_TEST(write_table(with_whole_backwards(*good)) == "0F0,0F1,1F0,1F1,1I0,1I1,1W0,1W1,0B0,0B1\n");
}

BOOST_AUTO_TEST_CASE(computations_are_what_is_left_without_transfers_gathers_and_reductions) {
  for (const char* name : {"1f1b", "zb_v", "dual_pipe_v"}) {
    BOOST_TEST_INFO_SCOPE(name);
    const auto t = named_table(name, 2, name[0] == '1' ? 1 : 2, 5);
    BOOST_TEST((computations_of(with_transfers(t)) == t));
  }
  const auto t = read_table("0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD", "a.csv");
  BOOST_REQUIRE(t.has_value());
  BOOST_TEST(write_table(computations_of(*t)) == "0F0,0B0\n");
}

BOOST_AUTO_TEST_CASE(forward_goes_through_the_stages_where_a_table_has_them) {
  BOOST_TEST(write_table(forward_through(named_table("zb_v", 2, 2, 4), 1)) == "0F0,3F0\n1F0,2F0\n");
  BOOST_TEST(write_table(forward_through(named_table("1f1b", 2, 2, 4), 3)) ==
             "0F0,0F1,2F0,2F1,0F2,2F2\n1F0,1F1,3F0,3F1,1F2,3F2\n");
  for (uint32_t micros = 1; micros < 9; ++micros)
    for (const char* name : {"zb_v", "interleaved_1f1b"}) {
      BOOST_TEST_INFO_SCOPE(name);
      const auto t = forward_through(named_table(name, 3, 2, 6), micros);
      const auto fault = find_fault(t);
      BOOST_TEST(!fault.has_value(), (fault ? fault->text : ""));
    }
}

BOOST_AUTO_TEST_SUITE_END()
