// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Two processes of one program outside this package. The parent starts itself twice; each child does
// its part and says so, and the parent expects both to have succeeded.

import Foundation
import Larder

if CommandLine.arguments.count > 1 {
  print("\(CommandLine.arguments[1]): a client of Larder runs")
} else {
  for name in ["first", "second"] {
    let child = Process()
    child.executableURL = Bundle.main.executableURL
    child.arguments = [name]
    try child.run()
    child.waitUntilExit()
    guard child.terminationReason == .exit, child.terminationStatus == 0 else {
      print("The \(name) process failed with \(child.terminationStatus).")
      exit(1)
    }
  }
  print("Two processes outside the package have run.")
}
