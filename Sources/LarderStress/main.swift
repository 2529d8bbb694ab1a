// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The storm of the coherence protocol: hostile processes over one store, and directed scenarios.
//
//     larder-stress writer STORE CONTROL ID WRITERS
//     larder-stress reader STORE CONTROL
//     larder-stress scenario NAME STORE       exit 0: the rule held; 3: it did not
//     larder-stress helper COMMAND STORE

import LarderTesting

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

let arguments = CommandLine.arguments
do {
  switch arguments.dropFirst().first {
  case "writer":
    try await StormWorkers.write(
      arguments[2], StormControl(path: arguments[3]), id: Int(arguments[4])!,
      of: Int(arguments[5])!)
  case "reader":
    try StormWorkers.read(arguments[2], StormControl(path: arguments[3]))
  case "scenario":
    try await StormScenarios.all[arguments[2]]!(arguments[3])
    ParentProcess.send("held")
  case "helper":
    try await StormHelpers.run(arguments[2], arguments[3])
  default:
    ParentProcess.send("usage: see main.swift")
    exit(64)
  }
} catch let violation as Violation {
  ParentProcess.send("violation: \(violation)")
  exit(3)
} catch {
  ParentProcess.send("error: \(error)")
  exit(4)
}
