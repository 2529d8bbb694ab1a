// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if !Tools
#if canImport(Darwin)
internal import Darwin
#else
internal import Glibc
#endif

/// The tool in a build without the trait Tools, which has the argument parser.
@main
enum WithoutTools {
  static func main() {
    fputs(
      "larder was built without its commands. Build it with: swift build --traits Tools\n", stderr)
    exit(69)
  }
}
#endif
