// A device that is none: the processor's ops behind the interface of one that runs beside the host.
// Its memory is copied to and fro, lists are copied when they are made, and results reach the host
// when a step is waited for and not before: what the host uses too early is wrong at once.
#pragma once

#include "kernels/exchange.h"
#include "kernels/ops.h"
#include "kernels/routed_exchange.h"

namespace thalweg::tests {

const kernels::Ops& PretendedDevice();
// Likewise how its rows go to other ranks.
const kernels::ExchangeOps& PretendedExchange();
const kernels::RoutedExchange& PretendedRouting();
// Whether its kernels reach every weight of a checkpoint, laid out for it or not. A real device has
// what was brought to it: experts change places there by moves alone (model/expert_moves.h).
bool PretendedReachesAllWeights();

}  // namespace thalweg::tests
