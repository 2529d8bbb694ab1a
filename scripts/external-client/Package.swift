// swift-tools-version: 6.2
// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

// A package as a user of Larder would write it. `scripts/check` builds and runs it, optimised, as the
// other program wants it: the hot paths whose instructions `scripts/bench guard` counts. They are
// counted from here, because here is where what is inlinable is inlined.
let package = Package(
  name: "external-client",
  platforms: [.macOS(.v15)],
  dependencies: [
    // Named, because a checkout's directory may have any name.
    .package(name: "larder", path: "../..")
  ],
  targets: [
    .executableTarget(
      name: "ExternalClient",
      dependencies: [
        .product(name: "Larder", package: "larder"),
        .product(name: "LarderObjects", package: "larder"),
        .product(name: "LarderTesting", package: "larder"),
      ]),
    // LMDB alone: nothing of the engine is built for it.
    .executableTarget(
      name: "LMDBClient", dependencies: [.product(name: "LarderLMDB", package: "larder")]),
    .executableTarget(
      name: "larder-guard",
      dependencies: [
        .product(name: "Larder", package: "larder"),
        .product(name: "LarderObjects", package: "larder"),
      ],
      path: "Sources/Guard"),
  ],
  swiftLanguageModes: [.v6]
)
