/** The images that `sandkeep image build` makes from Debian's packages, without a Dockerfile. */

interface Recipe {
  /** what the command calls it */
  operand: string;
  /** default name of the image */
  name: string;
  /** Debian packages besides those that every sandbox has */
  packages: readonly string[];
  /** symbolic links, each path with its target */
  links?: Readonly<Record<string, string>>;
  /** files below /etc, by their path there */
  etc?: Readonly<Record<string, { text: string }>>;
}

/** no page and no question of Firefox's own before the page that a program asked for */
const firefoxPolicies = {
  ...{ DontCheckDefaultBrowser: true, DisableTelemetry: true, DisableAppUpdate: true },
  ...{ OverrideFirstRunPage: "", OverridePostUpdatePage: "" },
};

export const recipes: readonly Recipe[] = [
  { operand: "debian", name: "debian", packages: [] },
  {
    operand: "code-interpreter",
    // The template that clients of the interpreter ask for.
    name: "code-interpreter-v1",
    // Not python3-opencv, python3-numba and python3-gensim, which together weigh more than all of these.
    packages: [
      "python3-ipykernel",
      // numbers and tables
      "python3-numpy",
      "python3-pandas",
      "python3-scipy",
      "python3-sklearn",
      "python3-joblib",
      "python3-statsmodels",
      "python3-sympy",
      "python3-networkx",
      "python3-xarray",
      "python3-nltk",
      // charts and pictures
      "python3-matplotlib",
      "python3-seaborn",
      "python3-plotly",
      "python3-pil",
      "python3-skimage",
      "python3-imageio",
      // files
      "python3-openpyxl",
      "python3-xlrd",
      "python3-xlsxwriter",
      "python3-docx",
      "python3-pypdf",
      "python3-lxml",
      "python3-h5py",
      "python3-yaml",
      "python3-soundfile",
      // the rest
      "python3-requests",
      "python3-aiohttp",
      "python3-bs4",
      "python3-pytest",
      "python3-tabulate",
      "python3-tqdm",
      "python3-tz",
    ],
  },
  {
    operand: "desktop",
    // The template that clients of the desktop ask for, and the programs that they start in it.
    name: "desktop",
    packages: [
      "xvfb",
      "x11-utils",
      "x11-xserver-utils",
      "x11vnc",
      "novnc",
      "net-tools",
      "xdotool",
      "xclip",
      "scrot",
      "ffmpeg",
      "xdg-utils",
      "desktop-file-utils",
      "dbus-x11",
      "libgtk-3-bin",
      "xfce4",
      "xfce4-terminal",
      "mousepad",
      "ristretto",
      "galculator",
      "adwaita-icon-theme",
      "fonts-dejavu-core",
      "fonts-noto-color-emoji",
      "firefox-esr",
      "chromium",
    ],
    links: {
      "/opt/noVNC": "/usr/share/novnc",
      "/usr/share/novnc/index.html": "vnc.html",
      // The names that the vendor's documents launch.
      "/usr/share/applications/firefox.desktop": "firefox-esr.desktop",
      "/usr/share/applications/google-chrome.desktop": "chromium.desktop",
    },
    etc: {
      // Chromium's own sandbox needs namespaces that a program in here cannot make.
      "chromium.d/in-a-sandbox": {
        text: 'export CHROMIUM_FLAGS="$CHROMIUM_FLAGS --no-sandbox --test-type --no-first-run"\n',
      },
      // Typing a character that is not ASCII needs a locale that has it.
      "profile.d/utf-8.sh": { text: '[ -n "$LANG" ] || export LANG=C.UTF-8\n' },
      // A message bus does not start without one.
      "machine-id": { text: "64657363746f700000000000736b6570\n" },
      "firefox/policies/policies.json": { text: `${JSON.stringify({ policies: firefoxPolicies })}\n` },
    },
  },
];

export function isRecipe(operand: string | undefined): boolean {
  return recipes.some((recipe) => recipe.operand === operand);
}
