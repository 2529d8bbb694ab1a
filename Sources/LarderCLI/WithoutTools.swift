// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if !Tools
internal import Foundation

/// The tool in a build without the trait Tools, which has the argument parser.
@main
enum WithoutTools {
  static func main() {
    let text = "larder was built without its commands. Build it with: swift build --traits Tools\n"
    try? FileHandle.standardError.write(contentsOf: Data(text.utf8))
    exit(69)
  }
}
#endif
