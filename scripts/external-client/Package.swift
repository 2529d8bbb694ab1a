// swift-tools-version: 6.2
// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

// A package as a user of Larder would write it. `scripts/check` builds it with optimisation and runs
// it. It also contains the hot paths whose instructions `scripts/bench guard` counts, because a client
// inlines the inlinable declarations.
let package = Package(
  name: "external-client",
  platforms: [.macOS(.v15)],
  dependencies: [
    // Named, because a checkout's directory may have any name. Without traits nothing else is cloned.
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
    // The smallest program with a store: its size is that of Larder and of what Larder links.
    .executableTarget(
      name: "SmallClient", dependencies: [.product(name: "Larder", package: "larder")]),
    // Code in Swift 5 mode, as users of the older libraries bring it.
    .executableTarget(
      name: "Swift5Client", dependencies: [.product(name: "Larder", package: "larder")],
      swiftSettings: [.swiftLanguageMode(.v5)]),
    // LMDB alone: nothing of the engine is built for it.
    .executableTarget(
      name: "LMDBClient", dependencies: [.product(name: "LarderLMDB", package: "larder")]),
    // For the thread sanitizer; scripts/sanitize runs it.
    .executableTarget(
      name: "ThreadClient",
      dependencies: [
        .product(name: "Larder", package: "larder"),
        .product(name: "LarderDefaults", package: "larder"),
        .product(name: "LarderObjects", package: "larder"),
      ]),
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
