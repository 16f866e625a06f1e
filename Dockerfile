# The lab in a container:
#
#     docker build --tag pellucid .
#     docker run --rm --publish 8888:8888 pellucid
#
# JupyterLab prints the address with its token. Mount a folder at /srv/pellucid/notebooks/mine to keep what you write.
FROM python:3.12-slim

RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /srv/pellucid
COPY . .
RUN pip install --no-cache-dir ".[all]" scikit-learn

RUN useradd --create-home lab && chown -R lab notebooks
USER lab
EXPOSE 8888
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "notebooks/01_first_look.ipynb"]
