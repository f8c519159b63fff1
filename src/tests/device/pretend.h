// A device that is none: the processor's ops behind the interface of one that runs beside the host.
// Its memory is copied to and fro, lists are copied when they are made, and results reach the host
// when a step is waited for and not before: what the host uses too early is wrong at once.
#pragma once

#include "kernels/exchange.h"
#include "kernels/ops.h"

namespace thalweg::tests {

const kernels::Ops& PretendedDevice();
// Likewise how its rows go to other ranks.
const kernels::ExchangeOps& PretendedExchange();

}  // namespace thalweg::tests
